// Operators whose gradient libtorch computes one way or another after a look at the elements:
// compiled for some elements, they are differentiated on others.

#include <torch/torch.h>
#include <torch/version.h>

#include <limits>
#include <memory>
#include <string>

#include "interpreted.hpp"
#include "kiln/autograd_dispatch/dispatch.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/compare_with_eager.hpp"

namespace kiln::autograd_dispatch {
namespace {

using testing::close;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Reduction {
  std::string name;
  std::function<at::Tensor(const at::Tensor&)> apply;
  bool takes_complex = false;
};

std::vector<Reduction> reductions() {
  return {
      {"prod", [](const at::Tensor& x) { return x.prod(); }, true},
      {"prod in double", [](const at::Tensor& x) { return x.prod(at::kDouble); }},
      {"prod along rows", [](const at::Tensor& x) { return x.prod(-1); }, true},
      {"prod along columns, kept", [](const at::Tensor& x) { return x.prod(0, true); }, true},
      {"cumprod", [](const at::Tensor& x) { return x.cumprod(-1); }, true},
      {"cumprod of columns", [](const at::Tensor& x) { return x.cumprod(0); }, true},
      {"cumprod in place",
       [](const at::Tensor& x) {
         at::Tensor copy = x * 1;
         copy.slice(0, 0, 2).cumprod_(-1);
         return copy;
       },
       true},
      {"max", [](const at::Tensor& x) { return x.max(); }},
      {"min", [](const at::Tensor& x) { return x.min(); }},
      {"median", [](const at::Tensor& x) { return x.median(); }},
      {"nanmedian", [](const at::Tensor& x) { return x.nanmedian(); }},
      {"amax", [](const at::Tensor& x) { return x.amax({0, 1}); }},
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 12  // Before, it has no derivative.
      {"aminmax",
       [](const at::Tensor& x) {
         const auto [least, most] = at::aminmax(x);
         return least * most;
       }},
#endif
      {"masked_fill",
       [](const at::Tensor& x) {
         return x.masked_fill(x.slice(1, 0, 1) > 0.5, x.select(0, 0)[1]);
       }},
      {"masked_fill_",
       [](const at::Tensor& x) {
         return (x * 2).t().masked_fill_((x > 0.5).t(), x.select(0, 0)[1]);
       }},
      {"kthvalue", [](const at::Tensor& x) { return std::get<0>(x.kthvalue(2, -1)); }},
      {"cummax", [](const at::Tensor& x) { return std::get<0>(x.cummax(-1)); }},
  };
}

// Three rows of four: without anything special, with zeros and ties, and with what is not a number.
std::vector<at::Tensor> elements() {
  const auto matrix = [](std::vector<double> numbers) {
    return at::tensor(numbers, at::kDouble).view({3, 4});
  };
  return {
      matrix({1.5, -0.5, 2.0, 0.7, -1.1, 0.9, 1.3, -2.0, 0.4, 1.2, -0.8, 0.6}),
      matrix({1.5, 0.0, 2.0, 0.7, -1.1, 0.9, 1.3, -2.0, 0.4, 1.2, -0.8, 0.6}),
      matrix({1.5, 0.0, 2.0, 0.7, -1.1, 0.9, 1.3, 0.0, 0.0, 1.2, 0.0, 0.6}),
      matrix({0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}),
      matrix({2.0, -2.0, 2.0, 0.7, -2.0, 2.0, 1.3, -2.0, 0.7, 0.7, -0.8, 0.7}),
      matrix({1.5, kNaN, 2.0, 0.7, -1.1, 0.9, kNaN, -2.0, 0.4, 1.2, -0.8, 0.6}),
      matrix({1.5, kNaN, 0.0, 0.7, -1.1, 0.0, kNaN, -2.0, 0.4, 1.2, -0.8, 0.6}),
      matrix({1.5, 0.0, 0.0, kNaN, kInfinity, 0.9, 1.3, -2.0, 0.4, 1.2, 0.0, 0.6}),
      matrix({1.5, kInfinity, 2.0, 0.7, 0.0, 0.9, kInfinity, -2.0, 0.4, 1.2, -kInfinity, 0.6}),
      matrix(std::vector<double>(12, kNaN)),
  };
}

struct Outcome {
  at::Tensor result, gradient;
};

Outcome differentiated(const TensorFunction& function, const at::Tensor& elements) {
  const at::Tensor leaf = elements.clone().requires_grad_();
  const at::Tensor result = function({leaf})[0];
  torch::manual_seed(3);
  const at::Tensor tangent = at::randn_like(result);
  return {result, torch::autograd::grad({result}, {leaf}, {tangent})[0]};
}

void check_same(const TensorFunction& eager, const TensorFunction& compiled, const at::Tensor& on) {
  CAPTURE(on);
  const Outcome expected = differentiated(eager, on);
  const Outcome found = differentiated(compiled, on);

  CHECK(close(found.result, expected.result, {1e-9, 1e-9}));
  CAPTURE(expected.gradient, found.gradient);
  CHECK(close(found.gradient, expected.gradient, {1e-6, 1e-9}));
}

// Traced on `seen` alone, and run by the interpreter.
TensorFunction traced_on(const TensorFunction& function, const at::Tensor& seen) {
  JointTrace trace = trace_joint(function, {seen.clone().requires_grad_()});
  const auto compiled =
      std::make_shared<CompiledFunction>(dispatch(std::move(trace), {.partition = cut}));
  return [compiled](const Tensors& arguments) { return (*compiled)(arguments); };
}

TensorFunction on_one(const Reduction& reduction) {
  return [reduction](const Tensors& in) { return Tensors{reduction.apply(in[0])}; };
}

// The sum of the squares of a gradient, whose own gradient is of second order.
TensorFunction penalty(const Reduction& reduction) {
  return [reduction](const Tensors& in) {
    const at::Tensor result = reduction.apply(in[0].sin()).sum();
    const at::Tensor gradient =
        torch::autograd::grad({result}, {in[0]}, {}, std::nullopt, /*create_graph=*/true)[0];
    return Tensors{(gradient * gradient.conj()).sum() + result};
  };
}

TEST_CASE("gradients that libtorch computes by a look at the elements are right for all elements",
          "[autograd-dispatch]") {
  for (const Reduction& reduction : reductions()) {
    INFO(reduction.name);
    const TensorFunction eager = on_one(reduction);
    for (const std::size_t seen : {0, 2, 5}) {
      CAPTURE(seen);
      const TensorFunction compiled = traced_on(eager, elements()[seen]);
      for (const at::Tensor& others : elements()) {
        check_same(eager, compiled, others);
      }
    }
  }
}

TEST_CASE("such gradients can be differentiated again within a function", "[autograd-dispatch]") {
  for (const Reduction& reduction : reductions()) {
    INFO(reduction.name);
    const TensorFunction eager = penalty(reduction);
    for (const std::size_t seen : {0, 2}) {
      const TensorFunction compiled = traced_on(eager, elements()[seen]);
      for (std::size_t other = 0; other < 5; ++other) {
        CAPTURE(seen, other);
        check_same(eager, compiled, elements()[other]);
      }
    }
  }
}

TEST_CASE("such gradients are right for complex, transposed, empty and single elements",
          "[autograd-dispatch]") {
  for (const Reduction& reduction : reductions()) {
    INFO(reduction.name);
    const TensorFunction eager = on_one(reduction);
    const at::Tensor transposed = elements()[4].view({4, 3}).t();
    check_same(eager, traced_on(eager, transposed), transposed);
    check_same(eager, traced_on(eager, elements()[1].to(at::kFloat)), elements()[1].to(at::kFloat));
    if (reduction.takes_complex) {
      const at::Tensor complex = at::complex(elements()[2], elements()[1]);
      check_same(eager, traced_on(eager, at::complex(elements()[0], elements()[4])), complex);
      for (const at::Tensor& few : {at::ones({3, 0}, at::kDouble),
                                    at::zeros({3, 1}, at::kDouble),
                                    at::full({3, 1}, kInfinity, at::kDouble)}) {
        check_same(eager, traced_on(eager, few), few);
      }
    }
  }
  const at::Tensor number = at::tensor(0.0, at::kDouble);
  for (const std::size_t of_any_shape : {0, 2, 4, 7, 8, 9, 10}) {
    const TensorFunction eager = on_one(reductions()[of_any_shape]);
    INFO(reductions()[of_any_shape].name);
    check_same(eager, traced_on(eager, number + 1), number);
  }
}

TEST_CASE("gradients of decompositions ask whether a phase matters when they run",
          "[autograd-dispatch]") {
  const auto values_of = [](const at::Tensor& matrix) {
    const auto [values, vectors] = at::linalg_eig(matrix);
    return vectors.abs().sum() + values.abs().sum();
  };
  const std::vector<TensorFunction> functions = {
      [=](const Tensors& in) { return Tensors{values_of(in[0])}; },
      [=](const Tensors& in) {
        const at::Tensor symmetric = at::complex(in[0] + in[0].t(), in[0] - in[0].t());
        const auto [values, vectors] = at::linalg_eigh(symmetric);
        return Tensors{vectors.abs().sum() + values.sum()};
      },
      [=](const Tensors& in) {
        const auto [u, s, v] = at::linalg_svd(at::complex(in[0], in[0].exp()));
        return Tensors{u.abs().sum() + s.sum() + v.abs().sum()};
      },
  };
  const at::Tensor seen = elements()[0].narrow(1, 0, 3).contiguous();
  const at::Tensor other = elements()[4].narrow(1, 0, 3) + at::eye(3, at::kDouble);

  for (const TensorFunction& eager : functions) {
    check_same(eager, traced_on(eager, seen), other);
  }

  const auto depends_on_phase = [](const Tensors& in) {
    const at::Tensor vectors = std::get<1>(at::linalg_eig(in[0]));
    return Tensors{at::real(vectors).sum() + at::imag(vectors).sum()};
  };
  CHECK_THROWS(differentiated(depends_on_phase, other));
  CHECK_THROWS(differentiated(traced_on(depends_on_phase, seen), other));
}

}  // namespace
}  // namespace kiln::autograd_dispatch
