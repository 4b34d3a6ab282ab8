#include "kiln/autograd_dispatch/joint.hpp"

#include <torch/torch.h>

#include "kiln/base/error.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::autograd_dispatch {
namespace {

using kiln::testing::contains;

TEST_CASE("a joint graph has primals, then tangents in, and outputs, then gradients out",
          "[autograd-dispatch][joint]") {
  torch::nn::Linear linear(4, 3);
  const auto function = [&](const Tensors& in) { return Tensors{linear(in[0]).relu()}; };

  const JointTrace trace = trace_joint(function, {torch::randn({2, 4})});

  REQUIRE(trace.graph.inputs().size() == 4);  // x, weight and bias in order of use, tangent
  CHECK(trace.graph.inputs()[0].kind == ir::InputKind::kUser);
  CHECK(trace.graph.inputs()[1].kind == ir::InputKind::kConstant);
  CHECK(trace.graph.inputs()[3].kind == ir::InputKind::kTangent);
  REQUIRE(trace.graph.outputs().size() == 3);
  CHECK(trace.graph.outputs()[0].kind == ir::OutputKind::kUser);
  CHECK(trace.graph.outputs()[1].kind == ir::OutputKind::kGradient);
  CHECK(trace.plan.gradients == std::vector<std::uint32_t>{1, 2});
}

TEST_CASE("nodes of the gradients are marked as backward", "[autograd-dispatch][joint]") {
  const JointTrace trace = trace_joint([](const Tensors& in) { return Tensors{in[0].sigmoid()}; },
                                       {torch::randn({2}, torch::requires_grad())});

  bool forward_unmarked = false, backward_marked = false;
  for (const ir::Node& node : trace.graph.nodes()) {
    forward_unmarked =
        forward_unmarked || (node.target == "aten.sigmoid.default" && !node.backward);
    backward_marked =
        backward_marked || (node.target == "aten.sigmoid_backward.default" && node.backward);
  }
  CHECK(forward_unmarked);
  CHECK(backward_marked);
}

TEST_CASE("eager's own errors come out unchanged", "[autograd-dispatch][joint]") {
  const auto leaf_in_place = [](const Tensors& in) { return Tensors{in[0].mul_(2)}; };

  CHECK_THROWS_WITH(trace_joint(leaf_in_place, {torch::randn({2}, torch::requires_grad())}),
                    contains("leaf Variable that requires grad"));
}

TEST_CASE("an input that starts to require grad inside is refused", "[autograd-dispatch][joint]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].add_(in[1])}; };

  CHECK_THROWS_WITH(
      trace_joint(function, {torch::randn({2}), torch::randn({2}, torch::requires_grad())}),
      contains("input 0 starts to require grad"));
}

}  // namespace
}  // namespace kiln::autograd_dispatch
