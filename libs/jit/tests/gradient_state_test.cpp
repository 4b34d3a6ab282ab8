// What autograd makes of a compiled function: history, and memory of gradients.

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/torch.h>

#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using testing::contains;

torch::Tensor leaf(at::IntArrayRef sizes) {
  return torch::randn(sizes, torch::requires_grad());
}

TEST_CASE("a gradient of two leaves is accumulated in each of them", "[jit][gradient_state]") {
  // A view, once for both and once another one for each.
  const auto [name, function] = GENERATE(table<std::string, TensorFunction>(
      {{"one view",
        [](const Tensors& in) {
          return Tensors{((in[0] + in[1].view({3})).unsqueeze(0) * in[2]).sum()};
        }},
       {"two views", [](const Tensors& in) {
          return Tensors{((in[0].view({3, 1}) + in[1].view({1, 3}).t()).t() * in[2]).sum()};
        }}}));
  const at::DimVector sizes = GENERATE(at::DimVector{3}, at::DimVector{1, 3});
  CAPTURE(name, sizes);
  const Function fast = compile(function, uncached());
  const torch::Tensor a = leaf({3}), b = leaf(sizes), x = torch::randn({4, 3});
  fast({a, b, x})[0].backward();
  fast({a, b, x})[0].backward();

  CHECK_FALSE(a.grad().is_alias_of(b.grad()));
  CHECK(torch::allclose(a.grad(), 2 * x.sum(0)));
  CHECK(torch::allclose(b.grad().view({3}), 2 * x.sum(0)));
}

TEST_CASE("grad mode that is switched on inside", "[jit][gradient_state]") {
  const auto [name, function] =
      GENERATE(table<std::string, TensorFunction>({{"a result",
                                                    [](const Tensors& in) {
                                                      const at::AutoGradMode on(true);
                                                      return Tensors{in[0].sin()};
                                                    }},
                                                   {"a view of one",
                                                    [](const Tensors& in) {
                                                      const at::AutoGradMode on(true);
                                                      const torch::Tensor y = in[0].sin();
                                                      return Tensors{y.view({3, 1}), y};
                                                    }},
                                                   {"a written argument", [](const Tensors& in) {
                                                      const at::AutoGradMode on(true);
                                                      in[1].mul_(in[0].sin());
                                                      return Tensors{in[1] * 2};
                                                    }}}));
  CAPTURE(name);
  const auto gradient = [](const TensorFunction& run) {
    torch::manual_seed(3);
    const torch::Tensor x = leaf({3});
    const torch::NoGradGuard off;
    const torch::Tensor y = run({x, torch::ones({3})})[0];
    CHECK(y.requires_grad());
    CHECK_FALSE(y.is_leaf());
    const at::AutoGradMode on(true);
    y.sum().backward();
    return x.grad();
  };
  const Function fast = compile(function, uncached());
  CHECK(torch::allclose(gradient(fast), gradient(function)));
  CHECK(torch::allclose(gradient(fast), gradient(function)));
}

TEST_CASE("a gradient with create_graph that depends on what was saved has a history that refuses",
          "[jit][gradient_state]") {
  const torch::Tensor frozen = torch::randn({3, 3});
  const Function of_product =
      compile([&](const Tensors& in) { return Tensors{in[0].mm(frozen).sin()}; }, uncached());
  const Function of_view =
      compile([](const Tensors& in) { return Tensors{in[0].sin()}; }, uncached());
  const torch::Tensor x = leaf({2, 3}), base = leaf({6});
  const auto penalty = [](const torch::Tensor& y, const torch::Tensor& of) {
    return torch::autograd::grad({y.sum()}, {of}, {}, true, true)[0];
  };

  const torch::Tensor y = of_product({x})[0];
  const torch::Tensor first = penalty(y, x);
  CHECK(first.requires_grad());
  CHECK_THROWS_WITH((y.sum() + first.square().sum()).backward(), contains("double backward"));
  CHECK_THROWS_WITH(torch::autograd::grad({(y.sum() + first.sum()).exp()}, {x}),
                    contains("double backward"));
  CHECK_THROWS_WITH(penalty(of_view({base.view({2, 3})})[0], base).sum().backward(),
                    contains("double backward"));
}

TEST_CASE("a gradient with create_graph of a linear function has no history",
          "[jit][gradient_state]") {
  const Function fast =
      compile([](const Tensors& in) { return Tensors{in[0].sin().mm(in[1])}; }, uncached());
  const torch::Tensor x = torch::randn({2, 3}), weight = leaf({3, 3});
  const torch::Tensor y = fast({x, weight})[0];
  const torch::Tensor gradient = torch::autograd::grad({y.sum()}, {weight}, {}, true, true)[0];

  CHECK_FALSE(gradient.requires_grad());
  (y.square().sum() + gradient.square().sum()).backward();
  CHECK(weight.grad().defined());
}

TEST_CASE("a leaf that is made, returned and computed with is refused", "[jit][gradient_state]") {
  const auto made = [](const Tensors& in) {
    const torch::Tensor d = torch::zeros_like(in[0]).requires_grad_();
    return Tensors{d, (in[0] + d).sin().sum()};
  };
  const auto renamed = [](const Tensors& in) {
    const torch::Tensor d = in[0].detach().requires_grad_();
    return Tensors{d, d.sin().sum()};
  };
  const torch::Tensor x = torch::randn({3});

  CHECK_THROWS_WITH(compile(made, uncached())({x}), contains("leaf that it has made"));
  CHECK_THROWS_WITH(compile(renamed, uncached())({x}), contains("leaf that it has made"));
}

TEST_CASE("a function that was first called below autograd", "[jit][gradient_state]") {
  const Function fast = compile([](const Tensors& in) { return Tensors{in[0].sin()}; }, uncached());
  const torch::Tensor x = leaf({3});
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    CHECK_FALSE(fast({x})[0].requires_grad());
  }
  CHECK(fast({x})[0].requires_grad());
}

}  // namespace
}  // namespace kiln
