// The entries of a model library as a C host calls them.

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <dlfcn.h>

#include <limits>
#include <unordered_map>

#include "affine.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/container_runtime/container.h"
#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

using testing::contains;
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

std::string last_error() {
  const char* message = nullptr;
  KILN_CALL(AOTInductorGetLastError, &message);
  return message;
}

Handle handle(at::Tensor tensor) {
  return reinterpret_cast<Handle>(new at::Tensor(std::move(tensor)));
}

at::Tensor take(Handle given) {
  auto* tensor = reinterpret_cast<at::Tensor*>(given);
  at::Tensor result = std::move(*tensor);
  delete tensor;
  return result;
}

AOTInductorConstantMap* opaque(HandleMap& map) {
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

at::Tensor expected(const at::Tensor& x) {
  return affine(x, embedded_scale(), embedded_shift());
}

TEST_CASE("RT-01 the old form makes a container for cpu", "[container-runtime][abi]") {
  AOTInductorModelContainerOpaque* container = nullptr;

  CHECK(KILN_CALL(AOTInductorModelContainerCreate, &container, 1, true, nullptr) == 0);
  CHECK(container != nullptr);
  CHECK(KILN_CALL(AOTInductorModelContainerDelete, container) == 0);
  CHECK(KILN_CALL(AOTInductorModelContainerCreate, &container, 1, false, nullptr) == 1);
  CHECK_THAT(last_error(), contains("compiled for cpu, not for cuda"));
}

TEST_CASE("RT-02 zero models and bad devices are refused", "[container-runtime][abi]") {
  AOTInductorModelContainerOpaque* container = nullptr;
  const auto create = [&](std::size_t models, const char* device) {
    return KILN_CALL(
        AOTInductorModelContainerCreateWithDevice, &container, models, device, nullptr);
  };

  CHECK(create(0, "cpu") == 1);
  CHECK_THAT(last_error(), contains("num_models must be positive, but got 0"));
  CHECK(create(std::numeric_limits<std::size_t>::max(), "cpu") == 1);
  CHECK_FALSE(last_error().empty());
  CHECK(create(1, nullptr) == 1);
  CHECK(create(1, "cpu:x") == 1);
  CHECK(create(1, "cpu:") == 1);
  CHECK(create(1, "") == 1);
  CHECK(container == nullptr);
  CHECK(create(1, "cpu:0") == 0);
  CHECK(last_error().empty());
  KILN_CALL(AOTInductorModelContainerDelete, container);
}

TEST_CASE("RT-03 deleting nothing is an error, not a crash", "[container-runtime][abi]") {
  CHECK(KILN_CALL(AOTInductorModelContainerDelete, nullptr) == 1);
}

TEST_CASE("RT-04 a run takes over its inputs", "[container-runtime][abi]") {
  const Container container;
  const at::Tensor x = at::ones({2, 4});

  CHECK(at::allclose(container.run(x), expected(x)));
  CHECK(x.use_count() == 1);
}

TEST_CASE("RT-04 wrong counts are a code, and the inputs are still taken over",
          "[container-runtime][abi]") {
  const Container container;
  const at::Tensor x = at::ones({2, 4});
  Handle inputs[] = {handle(x), handle(x)};
  Handle outputs[] = {nullptr, nullptr};
  const auto run = [&](std::size_t num_inputs, std::size_t num_outputs) {
    return KILN_CALL(AOTInductorModelContainerRun,
                     container.self,
                     inputs,
                     num_inputs,
                     outputs,
                     num_outputs,
                     nullptr,
                     nullptr);
  };

  CHECK(run(2, 1) == 1);
  CHECK(last_error() == "expected inputs vector size to be 1, but got 2");
  CHECK(x.use_count() == 1);
  CHECK(run(0, 1) == 1);
  inputs[0] = handle(x);
  CHECK(run(1, 2) == 1);
  CHECK(last_error() == "expected outputs vector size to be 1, but got 2");
  CHECK(x.use_count() == 1);
}

TEST_CASE("RT-04 null handles and arrays are a code", "[container-runtime][abi]") {
  const Container container;
  Handle inputs[] = {nullptr};
  Handle outputs[] = {nullptr};
  const auto run = [&](AOTInductorModelContainerOpaque* self, Handle* from, Handle* to) {
    return KILN_CALL(AOTInductorModelContainerRun, self, from, 1, to, 1, nullptr, nullptr);
  };

  CHECK(run(container.self, inputs, outputs) == 1);
  CHECK(run(container.self, nullptr, outputs) == 1);
  CHECK(run(nullptr, inputs, outputs) == 1);
  inputs[0] = handle(at::ones({1, 4}));
  CHECK(run(container.self, inputs, nullptr) == 1);
}

// What the model says to an input on which it fails.
std::string failure_on(const Container& container, float first) {
  Handle input = handle(at::full({1, 4}, first));
  Handle output = nullptr;
  CHECK(
      KILN_CALL(
          AOTInductorModelContainerRun, container.self, &input, 1, &output, 1, nullptr, nullptr) ==
      1);
  CHECK(output == nullptr);
  return last_error();
}

TEST_CASE("RT-04 a model that throws or finds no memory is a code, and its instance goes back",
          "[container-runtime][abi]") {
  const Container container;
  const at::Tensor x = at::ones({1, 4});
  const auto fail = [&](float first) { return failure_on(container, first); };

  for (int i = 0; i < 3; ++i) {
    CHECK(fail(-1) == "x starts with -1");
    // libtorch before 2.13 does not hand its message out.
    CHECK_THAT(fail(-2), contains("memory") || contains("on standard error only"));
  }

  CHECK(at::allclose(container.run(x), expected(x)));
}

TEST_CASE("RT-05 to RT-09 constants are described, stale indices are a code",
          "[container-runtime][abi]") {
  const Container container;
  std::size_t count = 0;
  const char* text = nullptr;
  bool folded = false;
  std::int32_t number = 0;
  std::size_t bytes = 0;
  CHECK(KILN_CALL(AOTInductorModelContainerGetNumConstants, container.self, &count) == 0);
  CHECK(count == 3);
  for (const std::size_t index : {std::size_t{2}, count, std::numeric_limits<std::size_t>::max()}) {
    const int code = index < count ? 0 : 1;
    CHECK(KILN_CALL(AOTInductorModelContainerGetConstantName, container.self, index, &text) ==
          code);
    CHECK(
        KILN_CALL(AOTInductorModelContainerGetConstantOriginalFQN, container.self, index, &text) ==
        code);
    CHECK(
        KILN_CALL(AOTInductorModelContainerGetConstantFromFolded, container.self, index, &folded) ==
        code);
    CHECK(KILN_CALL(AOTInductorModelContainerGetConstantType, container.self, index, &number) ==
          code);
    CHECK(KILN_CALL(AOTInductorModelContainerGetConstantDtype, container.self, index, &number) ==
          code);
    CHECK(KILN_CALL(AOTInductorModelContainerGetConstantDataSize, container.self, index, &bytes) ==
          code);
  }
  CHECK(folded);
  CHECK(bytes == 16);
}

TEST_CASE("RT-14 to RT-18 inputs, outputs and call spec are described",
          "[container-runtime][abi]") {
  const Container container;
  std::size_t count = 0;
  const char* text = nullptr;
  const char* other = nullptr;

  CHECK(KILN_CALL(AOTInductorModelContainerGetNumInputs, container.self, &count) == 0);
  CHECK(count == 1);
  CHECK(KILN_CALL(AOTInductorModelContainerGetInputName, container.self, 0, &text) == 0);
  CHECK(std::string(text) == "x");
  CHECK(KILN_CALL(AOTInductorModelContainerGetInputName, container.self, 1, &text) == 1);
  CHECK(KILN_CALL(AOTInductorModelContainerGetNumOutputs, container.self, &count) == 0);
  CHECK(count == 1);
  CHECK(KILN_CALL(AOTInductorModelContainerGetOutputName, container.self, 0, &text) == 0);
  CHECK(std::string(text) == "y");
  CHECK(KILN_CALL(AOTInductorModelContainerGetOutputName, container.self, 9, &text) == 1);
  CHECK(KILN_CALL(AOTInductorModelContainerGetCallSpec, container.self, &text, &other) == 0);
  CHECK(KILN_CALL(AOTInductorModelContainerGetCallSpec, container.self, nullptr, &other) == 1);
}

TEST_CASE("RT-10 to RT-13 every form of update reaches the next run", "[container-runtime][abi]") {
  const Container container;
  const at::Tensor x = at::ones({1, 4});
  at::Tensor scale = at::full({4}, 3.0F);
  at::Tensor shift = at::full({4}, 5.0F);
  const auto as_handle = [](at::Tensor& tensor) { return reinterpret_cast<Handle>(&tensor); };
  HandleMap map{{"c_scale", as_handle(scale)}, {"c_shift", as_handle(shift)}};
  const AOTInductorConstantMapEntry pairs[] = {{"c_scale", as_handle(scale)},
                                               {"c_shift", as_handle(shift)}};
  const auto next_values = [&] {
    scale.add_(1);
    shift.add_(10);
  };

  CHECK(KILN_CALL(AOTInductorModelContainerUpdateConstantBuffer,
                  container.self,
                  opaque(map),
                  false,
                  true) == 0);
  CHECK(at::allclose(container.run(x), affine(x, scale, shift)));
  next_values();
  CHECK(KILN_CALL(AOTInductorModelContainerUpdateConstantBufferPairs,
                  container.self,
                  pairs,
                  2,
                  false,
                  true) == 0);
  CHECK(at::allclose(container.run(x), affine(x, scale, shift)));
  next_values();
  CHECK(KILN_CALL(AOTInductorModelContainerUpdateConstantBufferFromCpu,
                  container.self,
                  opaque(map),
                  false,
                  true) == 0);
  CHECK(at::allclose(container.run(x), affine(x, scale, shift)));
  next_values();
  CHECK(KILN_CALL(AOTInductorModelContainerUpdateConstantBufferFromCpuPairs,
                  container.self,
                  pairs,
                  2,
                  false,
                  true) == 0);
  CHECK(at::allclose(container.run(x), affine(x, scale, shift)));
  next_values();
  CHECK(KILN_CALL(AOTInductorModelContainerUpdateInactiveConstantBuffer,
                  container.self,
                  opaque(map)) == 0);
  CHECK(KILN_CALL(
            AOTInductorModelContainerRunConstantFolding, container.self, true, nullptr, nullptr) ==
        0);
  CHECK(KILN_CALL(AOTInductorModelContainerSwapConstantBuffer, container.self) == 0);
  CHECK(at::allclose(container.run(x), affine(x, scale, shift)));
  next_values();
  CHECK(KILN_CALL(
            AOTInductorModelContainerUpdateInactiveConstantBufferPairs, container.self, pairs, 2) ==
        0);
  CHECK(KILN_CALL(AOTInductorModelContainerSwapConstantBuffer, container.self) == 0);
  CHECK(at::allclose(container.run(x), affine(x, scale, shift)));
  CHECK(KILN_CALL(AOTInductorModelContainerFreeInactiveConstantBuffer, container.self) == 0);
}

TEST_CASE("RT-10 names nobody knows are ignored, null ones are a code",
          "[container-runtime][abi]") {
  const Container container;
  const at::Tensor x = at::ones({1, 4});
  at::Tensor value = at::ones({7});
  const auto as_handle = reinterpret_cast<Handle>(&value);
  const AOTInductorConstantMapEntry unknown{"unknown", as_handle};
  const AOTInductorConstantMapEntry nameless{nullptr, as_handle};
  const AOTInductorConstantMapEntry empty{"c_scale", nullptr};
  const auto update = [&](const AOTInductorConstantMapEntry* pairs) {
    return KILN_CALL(
        AOTInductorModelContainerUpdateConstantBufferPairs, container.self, pairs, 1, false, false);
  };

  CHECK(update(&unknown) == 0);
  CHECK(update(&nameless) == 1);
  CHECK(update(&empty) == 1);
  CHECK(update(nullptr) == 1);
  CHECK(KILN_CALL(
            AOTInductorModelContainerUpdateConstantBuffer, container.self, nullptr, false, false) ==
        1);
  CHECK(at::allclose(container.run(x), expected(x)));
}

TEST_CASE("RT-28 a full update lacks no parameter, but may lack a buffer",
          "[container-runtime][abi]") {
  const Container container;
  const at::Tensor x = at::ones({1, 4});
  at::Tensor value = at::full({4}, 3.0F);
  const auto update = [&](const char* name, bool full) {
    const AOTInductorConstantMapEntry pair{name, reinterpret_cast<Handle>(&value)};
    return KILN_CALL(
        AOTInductorModelContainerUpdateConstantBufferPairs, container.self, &pair, 1, false, full);
  };

  CHECK(update("c_shift", true) == 1);
  CHECK(last_error() == "a full update lacks the constant 'module.scale'");
  CHECK(at::allclose(container.run(x), expected(x)));
  CHECK(update("c_scale", true) == 0);
  CHECK(at::allclose(container.run(x), affine(x, value, embedded_shift())));
  CHECK(update("c_shift", false) == 0);
  CHECK(at::allclose(container.run(x), affine(x, value, value)));
}

TEST_CASE("a program in C uses a library through container.h", "[container-runtime][abi]") {
  const ProcessResult result = run_process({KILN_TEST_C_HOST, test_model("affine").string()});

  INFO(result.error);
  CHECK(result.ok());
}

TEST_CASE("RT-24 a blob replaces the embedded weights", "[container-runtime][abi]") {
  const Container container;
  const at::Tensor x = at::ones({1, 4});
  std::uint64_t bytes = 0;
  CHECK(KILN_CALL(AOTInductorModelContainerGetConstantsBlobSize, container.self, &bytes) == 0);
  REQUIRE(bytes == 128);
  float blob[32] = {};
  std::fill_n(blob, 4, 6.0F);
  std::fill_n(blob + 16, 4, 8.0F);

  CHECK(KILN_CALL(AOTInductorModelUpdateConstantsFromBlob,
                  container.self,
                  reinterpret_cast<const std::uint8_t*>(blob)) == 0);

  CHECK(at::allclose(container.run(x), affine(x, at::full({4}, 6.0F), at::full({4}, 8.0F))));
  CHECK(KILN_CALL(AOTInductorModelUpdateConstantsFromBlob, container.self, nullptr) == 1);
}

TEST_CASE("RT-24 constants can be read back", "[container-runtime][abi]") {
  const Container container;
  HandleMap map;
  const AOTInductorConstantMapEntry* entries = nullptr;
  std::size_t count = 0;

  CHECK(KILN_CALL(
            AOTInductorModelContainerExtractConstantsMap, container.self, opaque(map), false) == 0);
  CHECK(KILN_CALL(AOTInductorModelContainerExtractConstantsMapEntries,
                  container.self,
                  &entries,
                  &count,
                  false) == 0);

  CHECK(map.size() == 2);
  REQUIRE(count == 2);
  CHECK(std::string(entries[0].name) == "module.scale");
  CHECK(at::allclose(*reinterpret_cast<at::Tensor*>(map.at("module.shift")), embedded_shift()));
}

TEST_CASE("a captured run has an instance of its own until it is released",
          "[container-runtime][abi]") {
  const Container container;
  const at::Tensor x = at::ones({1, 4});
  Handle input = reinterpret_cast<Handle>(const_cast<at::Tensor*>(&x));
  const auto capture = [&](Handle& output, void*& captured) {
    return KILN_CALL(KilnContainerRunCaptured,
                     container.self,
                     &input,
                     1,
                     &output,
                     1,
                     nullptr,
                     nullptr,
                     &captured);
  };
  Handle output = nullptr;
  void *first = nullptr, *second = nullptr;

  CHECK(capture(output, first) == 1);  // nothing has folded the constants
  CHECK(first == nullptr);
  CHECK(KILN_CALL(
            KilnContainerRunBorrowed, container.self, &input, 1, &output, 1, nullptr, nullptr) ==
        0);
  CHECK(at::allclose(take(output), expected(x)));

  REQUIRE(capture(output, first) == 0);
  CHECK(at::allclose(take(output), expected(x)));
  REQUIRE(capture(output, second) == 0);
  CHECK(at::allclose(take(output), expected(x)));
  CHECK(first != second);
  CHECK(KILN_CALL(KilnContainerCheck, container.self) == 0);
  CHECK(KILN_CALL(KilnContainerReleaseCapture, container.self, first) == 0);
  CHECK(KILN_CALL(KilnContainerReleaseCapture, container.self, first) == 1);
}

TEST_CASE("a library tells which inputs it writes to", "[container-runtime][abi]") {
  const Container container;
  bool answer = true;

  CHECK(KILN_CALL(KilnContainerIsInputMutated, container.self, 0, &answer) == 0);
  CHECK_FALSE(answer);
  CHECK(KILN_CALL(KilnContainerIsInputMutated, container.self, 1, &answer) == 1);
  answer = true;
  CHECK(KILN_CALL(KilnContainerMutatesConstants, container.self, &answer) == 0);
  CHECK_FALSE(answer);
}

TEST_CASE("RT-24 borrowed inputs stay with the caller", "[container-runtime][abi]") {
  const Container container;
  const at::Tensor x = at::ones({1, 4});
  Handle input = reinterpret_cast<Handle>(const_cast<at::Tensor*>(&x));
  Handle output = nullptr;

  CHECK(KILN_CALL(
            KilnContainerRunBorrowed, container.self, &input, 1, &output, 1, nullptr, nullptr) ==
        0);

  CHECK(at::allclose(take(output), expected(x)));
  CHECK(x.use_count() == 1);
}

TEST_CASE("RT-19 to RT-23 a bare model runs on embedded and on given constants",
          "[container-runtime][abi]") {
  AOTInductorModelOpaque* model = nullptr;
  const at::Tensor x = at::ones({1, 4});
  std::size_t count = 0;
  const auto run = [&] {
    Handle input = handle(x);
    Handle output = nullptr;
    REQUIRE(KILN_CALL(AOTInductorModelRun, model, &input, &output) == 0);
    return take(output);
  };

  REQUIRE(KILN_CALL(AOTInductorModelCreate, &model, nullptr) == 0);
  CHECK(KILN_CALL(AOTInductorModelGetNumOutputs, model, &count) == 0);
  CHECK(count == 1);
  CHECK(at::allclose(run(), expected(x)));

  HandleMap map{{"c_scale", handle(at::full({4}, 3.0F))}, {"c_shift", handle(at::full({4}, 5.0F))}};
  CHECK(KILN_CALL(AOTInductorModelUpdateConstantsMap, model, opaque(map)) == 0);
  CHECK(at::allclose(run(), affine(x, at::full({4}, 3.0F), at::full({4}, 5.0F))));

  const AOTInductorConstantMapEntry pairs[] = {{"c_scale", handle(at::full({4}, 4.0F))},
                                               {"c_shift", handle(at::full({4}, 6.0F))}};
  CHECK(KILN_CALL(AOTInductorModelUpdateConstantsMapV2, model, pairs, 2) == 0);
  CHECK(at::allclose(run(), affine(x, at::full({4}, 4.0F), at::full({4}, 6.0F))));
  CHECK(x.use_count() == 1);
  CHECK(KILN_CALL(AOTInductorModelDelete, model) == 0);

  const AOTInductorConstantMapEntry only_scale{"c_scale", handle(at::full({4}, 4.0F))};
  REQUIRE(KILN_CALL(AOTInductorModelCreateV2, &model, &only_scale, 1) == 0);
  Handle input = handle(x);
  Handle output = nullptr;
  CHECK(KILN_CALL(AOTInductorModelRun, model, &input, &output) == 1);
  CHECK_THAT(last_error(), contains("constant 'module.shift' has no value"));
  CHECK(KILN_CALL(AOTInductorModelDelete, model) == 0);
}

TEST_CASE("RT-24 a bare model runs on plain memory", "[container-runtime][abi]") {
  AOTInductorModelOpaque* model = nullptr;
  REQUIRE(KILN_CALL(AOTInductorModelCreateV2, &model, nullptr, 0) == 0);
  float values[] = {1, 1, 1, 1};
  float room[4] = {};
  AOTInductorArrayRefTensor input{};
  input.data = values;
  input.numel = 4;
  input.ndim = 2;
  input.dtype = 6;
  input.sizes[0] = 1;
  input.sizes[1] = 4;
  input.strides[0] = 4;
  input.strides[1] = 1;
  AOTInductorArrayRefTensor output{};
  output.data = room;
  output.numel = 4;

  CHECK(KILN_CALL(AOTInductorModelRunMinimalArrayrefInterfaceV2, model, 1, &input, 1, &output) ==
        0);
  CHECK(room[3] == 48);
  output = {};
  CHECK(KILN_CALL(AOTInductorModelRunMinimalArrayrefInterfaceV2, model, 1, &input, 1, &output) ==
        0);
  CHECK(static_cast<float*>(output.data)[0] == 12);
  CHECK(output.ndim == 2);
  CHECK(KILN_CALL(AOTInductorModelRunMinimalArrayrefInterfaceV2, model, 2, &input, 1, &output) ==
        1);
  KILN_CALL(AOTInductorModelDelete, model);
}

TEST_CASE(
    "RT-29 a model runs with grad mode off, which is as before afterwards and after a failure",
    "[container-runtime][abi]") {
  const Container container;
  const float nan = std::numeric_limits<float>::quiet_NaN();

  for (const bool enabled : {true, false}) {
    const at::AutoGradMode mode(enabled);
    CHECK_FALSE(container.run(at::ones({1, 4}).requires_grad_()).requires_grad());
    CHECK(container.run(at::full({1, 4}, -5.0F))[0][0].item<float>() == 0);
    CHECK(at::GradMode::is_enabled() == enabled);
    CHECK(failure_on(container, nan) != "");
    CHECK(at::GradMode::is_enabled() == enabled);
  }
}

}  // namespace
}  // namespace kiln::container_runtime
