// The entries of a model library as a C host calls them: containers and their runs.

#include <ATen/core/grad_mode.h>

#include <limits>
#include <string>

#include "abi.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

using testing::contains;

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

TEST_CASE("a program in C uses a library through container.h", "[container-runtime][abi]") {
  const ProcessResult result = run_process({KILN_TEST_C_HOST, test_model("affine").string()});

  INFO(result.error);
  CHECK(result.ok());
}

std::int32_t run_captured(const Container& container,
                          Handle input,
                          Handle& output,
                          void*& captured) {
  return KILN_CALL(
      KilnContainerRunCaptured, container.self, &input, 1, &output, 1, nullptr, nullptr, &captured);
}

TEST_CASE("a captured run has an instance of its own until it is released",
          "[container-runtime][abi]") {
  const Container container;
  const int others = affine_count("affine_instances") - 1;
  const auto instances = [&] { return affine_count("affine_instances") - others; };
  const at::Tensor x = at::ones({1, 4});
  Handle input = reinterpret_cast<Handle>(const_cast<at::Tensor*>(&x));
  const auto capture = [&](Handle& output, void*& captured) {
    return run_captured(container, input, output, captured);
  };
  const auto run = [&](Handle& output) {
    return KILN_CALL(
        KilnContainerRunBorrowed, container.self, &input, 1, &output, 1, nullptr, nullptr);
  };
  Handle output = nullptr;
  void *first = nullptr, *second = nullptr;

  CHECK(capture(output, first) == 1);  // nothing has folded the constants
  CHECK(first == nullptr);
  REQUIRE(run(output) == 0);
  CHECK(at::allclose(take(output), expected(x)));
  CHECK(instances() == 1);

  REQUIRE(capture(output, first) == 0);
  CHECK(at::allclose(take(output), expected(x)));
  CHECK(instances() == 1);  // the one that ran is idle, and is taken over
  REQUIRE(capture(output, second) == 0);
  CHECK(at::allclose(take(output), expected(x)));
  CHECK(instances() == 2);
  CHECK(first != second);
  CHECK(KILN_CALL(KilnContainerCheck, container.self) == 0);
  REQUIRE(run(output) == 0);
  CHECK(at::allclose(take(output), expected(x)));
  CHECK(instances() == 3);
  CHECK(KILN_CALL(KilnContainerReleaseCapture, container.self, first) == 0);
  CHECK(KILN_CALL(KilnContainerReleaseCapture, container.self, first) == 1);
  CHECK(instances() == 2);
}

TEST_CASE("a container whose instance was captured runs single-threaded, folds and ends",
          "[container-runtime][abi]") {
  const Container container;
  const at::Tensor x = at::ones({1, 4});
  Handle input = reinterpret_cast<Handle>(const_cast<at::Tensor*>(&x));
  CHECK(at::allclose(container.run(x), expected(x)));
  const auto capture = [&] {
    Handle output = nullptr;
    void* captured = nullptr;
    REQUIRE(run_captured(container, input, output, captured) == 0);
    CHECK(at::allclose(take(output), expected(x)));
  };

  capture();
  Handle owned = handle(x), output = nullptr;
  REQUIRE(KILN_CALL(AOTInductorModelContainerRunSingleThreaded,
                    container.self,
                    &owned,
                    1,
                    &output,
                    1,
                    nullptr,
                    nullptr) == 0);
  CHECK(at::allclose(take(output), expected(x)));
  capture();
  CHECK(KILN_CALL(AOTInductorModelContainerRunConstantFolding,
                  container.self,
                  /*use_inactive=*/false,
                  nullptr,
                  nullptr) == 0);
  CHECK(at::allclose(container.run(x), expected(x)));
  capture();
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
