// Arguments and results that share memory, are written, or lose what they had.

#include <torch/torch.h>

#include <functional>

#include "interpreted.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/compare_with_eager.hpp"

namespace kiln::autograd_dispatch {
namespace {

using kiln::testing::check_like_eager;
using kiln::testing::contains;

TEST_CASE("a function that writes an argument is not called with another one on its memory",
          "[autograd-dispatch][dispatch]") {
  const auto writing = [](std::size_t written) {
    return [written](const Tensors& in) {
      in[written].add_(1);
      return Tensors{in[0] + in[1]};
    };
  };
  for (const std::size_t written : {0, 1}) {
    CAPTURE(written);
    const CompiledFunction apart =
        dispatch(trace_joint(writing(written), {torch::ones({3}), torch::ones({3})}), {});
    const torch::Tensor x = torch::ones({3});

    CHECK(apart.accepts({torch::ones({3}), torch::ones({3})}));
    CHECK_FALSE(apart.accepts({x, x.view({3})}));
    CHECK_THROWS_WITH(apart({x, x}), contains("which is written"));
  }
}

// Interprets, and returns tensors of its own on the same memory, as generated code may.
CompiledGraph rewrapping(const ir::Graph& graph) {
  return [run = interpret(graph)](Tensors inputs) {
    Tensors results = run(std::move(inputs));
    for (torch::Tensor& result : results) {
      if (result.defined()) {
        torch::Tensor own = at::empty({0}, result.options());
        own.set_(result.storage(), result.storage_offset(), result.sizes(), result.strides());
        result = own;
      }
    }
    return results;
  };
}

TEST_CASE("what was saved counts the writes to any argument or result whose memory it is on",
          "[autograd-dispatch][dispatch]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0] * 2, in[1] * in[1], in[0].exp()};
  };
  using Write = std::function<void(const Tensors& in, const Tensors& outputs)>;
  const auto differentiate_after = [&](const Write& write) {
    const Tensors in = {torch::randn({3}, torch::requires_grad()),
                        torch::randn({3}, torch::requires_grad())};
    const Tensors outputs =
        dispatch(trace_joint(function, in), {.forward = rewrapping, .partition = split})(in);
    write(in, outputs);
    (outputs[1] + outputs[2]).sum().backward();
    CHECK(torch::allclose(in[1].grad(), 2 * in[1]));
  };

  differentiate_after([](const Tensors&, const Tensors&) {});
  CHECK_THROWS_WITH(
      differentiate_after([](const Tensors& in, const Tensors&) { in[1].detach().mul_(2); }),
      contains("modified by an inplace operation"));
  CHECK_THROWS_WITH(
      differentiate_after([](const Tensors&, const Tensors& out) { out[2].detach().mul_(2); }),
      contains("modified by an inplace operation"));
}

struct HalvedGradient : torch::autograd::Function<HalvedGradient> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x) {
    return x.view_as(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0] * 0.5};
  }
};

TEST_CASE("AD-69 a custom function that returns any of the arguments keeps its gradient",
          "[autograd-dispatch][dispatch]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0] * 2, HalvedGradient::apply(in[1])};
  };

  check_like_eager(function, compiled(function), [] {
    return Tensors{torch::randn({2, 2}, torch::requires_grad()),
                   torch::randn({2, 2}, torch::requires_grad())};
  });
}

TEST_CASE("views and memories are taken before an argument is detached or moved",
          "[autograd-dispatch][dispatch]") {
  const auto detaches = [](const Tensors& in) {
    const torch::Tensor view = in[0].view({-1});
    in[0].detach_();
    return Tensors{view};
  };
  const torch::Tensor leaf = torch::randn({2, 3}, torch::requires_grad());
  const torch::Tensor x = leaf * 1;
  const torch::Tensor view = compiled(detaches)({x})[0];
  view.sum().backward();
  CHECK_FALSE(x.requires_grad());
  CHECK(torch::equal(leaf.grad(), torch::ones({2, 3})));

  const auto moves = [](const Tensors& in) {
    const torch::NoGradGuard no_grad;
    in[0].set_(in[1] * 2);
    return Tensors();
  };
  const torch::Tensor moved = torch::ones({3}), source = torch::randn({3});
  CHECK(compiled(moves)({moved, source}).empty());
  CHECK(torch::equal(moved, source * 2));
}

TEST_CASE("a captured tensor that was computed before passes its gradient on",
          "[autograd-dispatch][dispatch]") {
  const torch::Tensor weight = torch::ones({3}, torch::requires_grad());
  const torch::Tensor scaled = weight * 3;
  const auto function = [&](const Tensors& in) { return Tensors{in[0] * scaled}; };
  const torch::Tensor x = torch::randn({3});

  compiled(function)({x})[0].sum().backward();

  CHECK(torch::allclose(weight.grad(), x * 3));
}

}  // namespace
}  // namespace kiln::autograd_dispatch
