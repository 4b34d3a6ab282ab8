// Eager and compiled, side by side on equal inputs: everything that a caller can see must be equal.

#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

#include "kiln/testing/catch2.hpp"

namespace kiln::testing {

using Tensors = std::vector<torch::Tensor>;

/// How far floating-point results may be apart: fused kernels round at other places than eager's.
struct Tolerance {
  double relative = 1e-4;
  double absolute = 1e-5;
};

inline bool close(const torch::Tensor& a, const torch::Tensor& b, Tolerance tolerance) {
  if (!a.is_floating_point()) {
    return torch::equal(a, b);
  }
  return torch::allclose(a, b, tolerance.relative, tolerance.absolute, /*equal_nan=*/true);
}

/// Runs `eager` and `compiled` on inputs that `make` gives (equal ones: it is seeded alike) and
/// checks outputs (values, dtype, sizes, strides, requires_grad), the inputs after the call
/// (values, sizes, strides, version raised or not) and the gradients of all inputs with one
/// backward through each output in turn.
inline void check_like_eager(const std::function<Tensors(const Tensors&)>& eager,
                             const std::function<Tensors(const Tensors&)>& compiled,
                             const std::function<Tensors()>& make,
                             Tolerance tolerance = {}) {
  const auto run = [&](const std::function<Tensors(const Tensors&)>& function,
                       Tensors& inputs,
                       Tensors& outputs) {
    torch::manual_seed(1);
    inputs = make();
    std::vector<std::uint32_t> versions;
    for (const torch::Tensor& input : inputs) {
      versions.push_back(input._version());
    }
    torch::manual_seed(2);
    outputs = function(inputs);
    std::vector<bool> raised;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      raised.push_back(inputs[i]._version() != versions[i]);
    }
    return raised;
  };
  Tensors inputs, expected_inputs, outputs, expected;
  const std::vector<bool> expected_raised = run(eager, expected_inputs, expected);
  const std::vector<bool> raised = run(compiled, inputs, outputs);

  CHECK(raised == expected_raised);
  REQUIRE(outputs.size() == expected.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    CAPTURE(i);
    CHECK(outputs[i].scalar_type() == expected[i].scalar_type());
    CHECK(outputs[i].sizes() == expected[i].sizes());
    CHECK(outputs[i].strides() == expected[i].strides());
    CHECK(outputs[i].requires_grad() == expected[i].requires_grad());
    CHECK(close(outputs[i], expected[i], tolerance));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CAPTURE(i);
    CHECK(inputs[i].sizes() == expected_inputs[i].sizes());
    CHECK(inputs[i].strides() == expected_inputs[i].strides());
    CHECK(close(inputs[i], expected_inputs[i], tolerance));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!expected[i].requires_grad()) {
      continue;
    }
    torch::manual_seed(3);
    const torch::Tensor tangent = torch::randn_like(expected[i]);
    expected[i].backward(tangent, /*retain_graph=*/true);
    outputs[i].backward(tangent, /*retain_graph=*/true);
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      CAPTURE(i, j);
      const torch::Tensor& wanted = expected_inputs[j].grad();
      const torch::Tensor& found = inputs[j].grad();
      CHECK(found.defined() == wanted.defined());
      if (found.defined() && wanted.defined()) {
        CHECK(close(found, wanted, tolerance));
      }
    }
  }
}

}  // namespace kiln::testing
