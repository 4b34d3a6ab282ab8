// The entries of the affine library as a C host calls them, for tests.

#pragma once

#include <ATen/core/Tensor.h>
#include <dlfcn.h>

#include <string>
#include <unordered_map>

#include "affine.hpp"
#include "kiln/container_runtime/container.h"
#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {

using Handle = AtenTensorOpaque*;
using HandleMap = std::unordered_map<std::string, Handle>;

// Calls an entry of the affine library: KILN_CALL(AOTInductorModelDelete, model).
#define KILN_CALL(entry, ...) entry_of<decltype(&entry)>(#entry)(__VA_ARGS__)

template <class Function>
Function entry_of(const char* name) {
  static void* const library = dlopen(test_model("affine").c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  auto entry = reinterpret_cast<Function>(dlsym(library, name));
  INFO(name);
  REQUIRE(entry != nullptr);
  return entry;
}

inline std::string last_error() {
  const char* message = nullptr;
  KILN_CALL(AOTInductorGetLastError, &message);
  return message;
}

inline Handle handle(at::Tensor tensor) {
  return reinterpret_cast<Handle>(new at::Tensor(std::move(tensor)));
}

inline at::Tensor take(Handle given) {
  auto* tensor = reinterpret_cast<at::Tensor*>(given);
  at::Tensor result = std::move(*tensor);
  delete tensor;
  return result;
}

inline AOTInductorConstantMap* opaque(HandleMap& map) {
  return reinterpret_cast<AOTInductorConstantMap*>(&map);
}

// A container of one instance, deleted at the end of the test.
struct Container {
  AOTInductorModelContainerOpaque* self = nullptr;
  Container() {
    REQUIRE(KILN_CALL(AOTInductorModelContainerCreateWithDevice, &self, 1, "cpu", nullptr) == 0);
  }
  ~Container() { KILN_CALL(AOTInductorModelContainerDelete, self); }

  at::Tensor run(const at::Tensor& x) const {
    Handle input = handle(x);
    Handle output = nullptr;
    REQUIRE(KILN_CALL(
                AOTInductorModelContainerRun, self, &input, 1, &output, 1, nullptr, nullptr) == 0);
    return take(output);
  }
};

inline at::Tensor expected(const at::Tensor& x) {
  return affine(x, embedded_scale(), embedded_shift());
}

// What the model says to an input on which it fails.
inline std::string failure_on(const Container& container, float first) {
  Handle input = handle(at::full({1, 4}, first));
  Handle output = nullptr;
  CHECK(
      KILN_CALL(
          AOTInductorModelContainerRun, container.self, &input, 1, &output, 1, nullptr, nullptr) ==
      1);
  CHECK(output == nullptr);
  return last_error();
}

}  // namespace kiln::container_runtime
