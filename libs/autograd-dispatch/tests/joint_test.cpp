#include "kiln/autograd_dispatch/joint.hpp"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <algorithm>

#include "kiln/base/error.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::autograd_dispatch {
namespace {

using kiln::testing::contains;

TEST_CASE("AD-110 a joint graph has primals, then tangents in, and outputs, then gradients out",
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

TEST_CASE("a function may keep what does not depend on its inputs", "[autograd-dispatch][joint]") {
  torch::Tensor mask;
  const auto function = [&](const Tensors& in) {
    if (!mask.defined()) {
      mask = torch::ones_like(in[0]).tril() * 2;
    }
    return Tensors{in[0] * mask};
  };
  const torch::Tensor x = torch::randn({3, 3}, torch::requires_grad());

  CHECK(trace_joint(function, {x}).differentiable());

  CHECK(torch::equal(mask, torch::ones({3, 3}).tril() * 2));
}

TEST_CASE(
    "a function that keeps what depends on its inputs is refused, and what it keeps has values",
    "[autograd-dispatch][joint]") {
  torch::Tensor last;
  const auto function = [&](const Tensors& in) {
    last = in[0].sin();
    return Tensors{last * 2};
  };
  const bool trains = GENERATE(false, true);
  const torch::Tensor x = torch::randn({3, 3}, torch::requires_grad(trains));

  CHECK_THROWS_WITH(trace_joint(function, {x}),
                    testing::contains("keeps the result of aten.sin.default"));

  CHECK(torch::equal(last, x.detach().sin()));
}

TEST_CASE("what a function keeps and reshapes in place is refused, and has values",
          "[autograd-dispatch][joint]") {
  torch::Tensor last;
  const auto function = [&](const Tensors& in) {
    last = in[0].sin();
    last.unsqueeze_(0);
    last.transpose_(1, 2);
    return Tensors{last * 2};
  };
  const torch::Tensor x = torch::randn({3, 4});

  CHECK_THROWS_WITH(trace_joint(function, {x}),
                    testing::contains("keeps the result of aten.transpose_.default"));

  CHECK(torch::equal(last, x.sin().unsqueeze(0).transpose(1, 2)));
}

TEST_CASE("a function that keeps what it returns is refused", "[autograd-dispatch][joint]") {
  torch::Tensor last;
  const bool returns_view = GENERATE(false, true);
  const bool no_grad_mode = GENERATE(false, true);
  const bool trains = GENERATE(false, true);
  const auto function = [&](const Tensors& in) {
    last = in[0].sin();
    return Tensors{returns_view ? last.view({9}) : last};
  };
  const torch::Tensor x = torch::randn({3, 3}, torch::requires_grad(trains));
  const at::AutoGradMode mode(!no_grad_mode);

  CHECK_THROWS_WITH(trace_joint(function, {x}),
                    testing::contains("keeps the result of aten.sin.default"));

  CHECK(torch::equal(last, x.detach().sin()));
}

TEST_CASE("a function that reads values is traced with them", "[autograd-dispatch][joint]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor y = in[0].exp();
    return Tensors{y.data_ptr<float>()[0] > 0 ? y.sin() : y.cos()};
  };
  const JointTrace trace = trace_joint(function, {torch::ones({2}, torch::requires_grad())});
  CHECK(std::any_of(trace.graph.nodes().begin(), trace.graph.nodes().end(), [](const auto& node) {
    return node.target == "aten.sin.default";
  }));
}

TEST_CASE("what a trace returns as the results of a call was computed",
          "[autograd-dispatch][joint]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].exp()}; };
  const torch::Tensor x = torch::randn({3});
  CHECK_FALSE(trace_joint(function, {x}).outputs);
  const torch::NoGradGuard no_grad;
  CHECK(torch::equal(trace_joint(function, {x}).outputs.value()[0], x.exp()));
}

TEST_CASE("eager's own errors come out unchanged", "[autograd-dispatch][joint]") {
  const auto leaf_in_place = [](const Tensors& in) { return Tensors{in[0].mul_(2)}; };

  CHECK_THROWS_WITH(trace_joint(leaf_in_place, {torch::randn({2}, torch::requires_grad())}),
                    contains("leaf Variable that requires grad"));
}

TEST_CASE("backward() inside the function is refused", "[autograd-dispatch][joint]") {
  const torch::Tensor weight = torch::ones({2}, torch::requires_grad());
  const auto on_input = [](const Tensors& in) {
    (in[0] * 2).sum().backward();
    return Tensors{in[0] * 3};
  };
  const auto on_captured = [&](const Tensors& in) {
    (in[0] * weight).sum().backward();
    return Tensors{in[0] * 3};
  };

  CHECK_THROWS_WITH(trace_joint(on_input, {torch::ones({2}, torch::requires_grad())}),
                    contains("torch::autograd::grad"));
  CHECK_THROWS_WITH(trace_joint(on_captured, {torch::ones({2})}),
                    contains("torch::autograd::grad"));
  CHECK_FALSE(weight.grad().defined());
}

TEST_CASE("a write to a captured tensor that autograd sees is refused and undone",
          "[autograd-dispatch][joint]") {
  const torch::Tensor weight = torch::ones({2}, torch::requires_grad());
  const torch::Tensor buffer = torch::zeros({2});
  const torch::Tensor history = weight * 3;
  const auto before = history.grad_fn();
  const auto onto_buffer = [&](const Tensors& in) {
    buffer.add_(in[0]);
    return Tensors{buffer * 2};
  };
  const auto onto_history = [&](const Tensors& in) {
    history.mul_(in[0]);
    return Tensors{history * 2};
  };

  CHECK_THROWS_WITH(trace_joint(onto_buffer, {weight}), contains("pass it as an argument"));
  CHECK_FALSE(buffer.requires_grad());
  CHECK(torch::equal(buffer, torch::zeros({2})));
  CHECK_THROWS_WITH(trace_joint(onto_history, {torch::ones({2}) * 5}),
                    contains("pass it as an argument"));
  CHECK(history.grad_fn() == before);
  history.sum().backward();
  CHECK(torch::equal(weight.grad(), torch::full({2}, 3.0)));
}

TEST_CASE("captured tensors of which one was computed from the other are refused",
          "[autograd-dispatch][joint]") {
  const torch::Tensor weight = torch::ones({2}, torch::requires_grad());
  const torch::Tensor squared = weight.square();
  const auto function = [&](const Tensors& in) { return Tensors{in[0] * weight + squared}; };

  CHECK_THROWS_WITH(trace_joint(function, {torch::ones({2})}), contains("computed from another"));
}

TEST_CASE("an argument that shares memory with a captured tensor may not be written",
          "[autograd-dispatch][joint]") {
  const torch::Tensor buffer = torch::zeros({2});
  const auto writes = [&](const Tensors& in) { return Tensors{in[0].add_(1) + buffer}; };
  const auto reads = [&](const Tensors& in) { return Tensors{in[0] + buffer}; };

  CHECK_THROWS_WITH(trace_joint(writes, {buffer.view({2})}), contains("shares memory"));
  CHECK_NOTHROW(trace_joint(reads, {buffer.view({2})}));
}

TEST_CASE("AD-132 autocast that the function leaves changed is refused and put back",
          "[autograd-dispatch][joint]") {
  const auto function = [](const Tensors& in) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    return Tensors{in[0] * 2};
  };

  CHECK_THROWS_WITH(trace_joint(function, {torch::ones({2})}), contains("autocast"));
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

}  // namespace
}  // namespace kiln::autograd_dispatch
