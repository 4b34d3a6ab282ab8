// The C entries, called with whatever comes: codes, never a crash.

#include <dlfcn.h>

#include <random>

#include "affine.hpp"
#include "kiln/container_runtime/container.h"
#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

using ContainerHandle = AOTInductorModelContainerOpaque*;

class Fuzzer {
 public:
  explicit Fuzzer(unsigned seed)
      : random_(seed), library_(dlopen(test_model("affine").c_str(), RTLD_NOW | RTLD_LOCAL)) {
    REQUIRE(library_ != nullptr);
    REQUIRE(entry<decltype(&AOTInductorModelContainerCreateWithDevice)>(
                "AOTInductorModelContainerCreateWithDevice")(&container_, 2, "cpu", nullptr) == 0);
  }
  ~Fuzzer() {
    entry<decltype(&AOTInductorModelContainerDelete)>("AOTInductorModelContainerDelete")(
        container_);
    dlclose(library_);
  }
  Fuzzer(const Fuzzer&) = delete;
  Fuzzer& operator=(const Fuzzer&) = delete;

  // One call of some entry with arguments that are right, wrong or absent.
  std::int32_t step() {
    const ContainerHandle container = coin() ? container_ : nullptr;
    switch (pick(9)) {
      case 0:
        return entry<decltype(&AOTInductorModelContainerGetInputName)>(
            "AOTInductorModelContainerGetInputName")(container, index(), place(&name_));
      case 1:
        return entry<decltype(&AOTInductorModelContainerGetOutputName)>(
            "AOTInductorModelContainerGetOutputName")(container, index(), place(&name_));
      case 2:
        return entry<decltype(&AOTInductorModelContainerGetConstantName)>(
            "AOTInductorModelContainerGetConstantName")(container, index(), place(&name_));
      case 3:
        return entry<decltype(&AOTInductorModelContainerGetConstantDtype)>(
            "AOTInductorModelContainerGetConstantDtype")(container, index(), place(&number_));
      case 4:
        return entry<decltype(&AOTInductorModelContainerGetConstantDataSize)>(
            "AOTInductorModelContainerGetConstantDataSize")(container, index(), place(&count_));
      case 5:
        return entry<decltype(&AOTInductorModelContainerGetNumInputs)>(
            "AOTInductorModelContainerGetNumInputs")(container, place(&count_));
      case 6:
        return entry<decltype(&AOTInductorModelContainerSwapConstantBuffer)>(
            "AOTInductorModelContainerSwapConstantBuffer")(container);
      case 7:
        return entry<decltype(&AOTInductorModelContainerFreeInactiveConstantBuffer)>(
            "AOTInductorModelContainerFreeInactiveConstantBuffer")(container);
      default: return run(container);
    }
  }

 private:
  // Handles are taken over by the call, so each is new.
  std::int32_t run(ContainerHandle container) {
    AtenTensorOpaque* inputs[3] = {};
    const std::size_t count = pick(4);
    for (std::size_t i = 0; i < count; ++i) {
      const std::vector<std::int64_t> sizes(pick(4), static_cast<std::int64_t>(pick(6)));
      inputs[i] =
          coin() ? reinterpret_cast<AtenTensorOpaque*>(new at::Tensor(at::ones(sizes))) : nullptr;
    }
    AtenTensorOpaque* outputs[3] = {};
    const std::int32_t code = entry<decltype(&AOTInductorModelContainerRun)>(
        "AOTInductorModelContainerRun")(container,
                                        coin() || count != 0 ? inputs : nullptr,
                                        count,
                                        coin() ? outputs : nullptr,
                                        pick(3),
                                        nullptr,
                                        nullptr);
    for (AtenTensorOpaque* output : outputs) {
      CHECK((code == 0 || output == nullptr));
      delete reinterpret_cast<at::Tensor*>(output);
    }
    return code;
  }

  template <class Function>
  Function entry(const char* name) {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }
  std::size_t pick(std::size_t end) { return random_() % end; }
  bool coin() { return pick(8) != 0; }
  std::size_t index() { return coin() ? pick(5) : random_(); }
  template <class T>
  T* place(T* there) {
    return coin() ? there : nullptr;
  }

  std::mt19937 random_;
  void* library_;
  ContainerHandle container_ = nullptr;
  const char* name_ = nullptr;
  std::int32_t number_ = 0;
  std::size_t count_ = 0;
};

TEST_CASE("random calls of the entries give codes", "[container-runtime][abi_fuzz]") {
  int succeeded = 0;
  int failed = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    Fuzzer fuzzer(seed);
    for (int i = 0; i < 250; ++i) {
      const std::int32_t code = fuzzer.step();
      REQUIRE((code == 0 || code == 1));
      ++(code == 0 ? succeeded : failed);
    }
  }
  // Both kinds were met, or the fuzzer has lost its teeth.
  CHECK(succeeded > 500);
  CHECK(failed > 500);
}

}  // namespace
}  // namespace kiln::container_runtime
