// What may differ between two calls of a function though their tensors look alike.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/torch.h>

#include <limits>
#include <tuple>

#include "function_cache.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

struct DefaultDtype {
  caffe2::TypeMeta before = c10::get_default_dtype();
  explicit DefaultDtype(at::ScalarType dtype) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype));
  }
  ~DefaultDtype() { c10::set_default_dtype(before); }
  DefaultDtype(const DefaultDtype&) = delete;
  DefaultDtype& operator=(const DefaultDtype&) = delete;
};

// Traced again before calls 2, 4, 8, … and at no other.
CompileOptions paid() {
  CompileOptions options = uncached();
  options.retrace_budget = std::numeric_limits<double>::infinity();
  return options;
}

TEST_CASE("overlapping views of one base that train begin elsewhere in it", "[jit][call_state]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(2);
    return Tensors{in[1] * 3};
  };
  const Function fast = compile(function, uncached());
  const auto call = [](const TensorFunction& run, std::int64_t start) {
    const torch::Tensor leaf = torch::arange(1.0F, 11.0F).requires_grad_();
    const torch::Tensor base = leaf.clone();
    const Tensors views = {base.slice(0, start, start + 4), base.slice(0, start + 2, start + 6)};
    const torch::Tensor y = run(views)[0];
    y.sum().backward();
    return Tensors{y.detach(), base.detach(), leaf.grad()};
  };
  for (const std::int64_t start : {0, 4, 1}) {
    CAPTURE(start);
    const Tensors expected = call(function, start), found = call(fast, start);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CHECK(torch::equal(found[i], expected[i]));
    }
  }
}

TEST_CASE("an expanded argument that is written begins elsewhere in its base",
          "[jit][call_state]") {
  const auto function = [](const Tensors& in) {
    in[0].select(0, 0).add_(1);
    return Tensors{in[0] * 2};
  };
  const Function fast = compile(function, traced_once());
  for (const std::int64_t start : {0, 5, 2}) {
    CAPTURE(start);
    const torch::Tensor own = torch::zeros({10}), other = torch::zeros({10});
    const torch::Tensor expected =
        function({own.slice(0, start, start + 3).unsqueeze(0).expand({2, 3})})[0];
    const torch::Tensor found =
        fast({other.slice(0, start, start + 3).unsqueeze(0).expand({2, 3})})[0];
    CHECK(torch::equal(found, expected));
    CHECK(torch::equal(other, own));
  }
}

TEST_CASE("a parameter and its detached alias are captured both", "[jit][call_state]") {
  const torch::Tensor w = torch::tensor({2.0F, 3.0F, 4.0F}).requires_grad_();
  const torch::Tensor frozen = w.detach();
  const auto function = [&](const Tensors& in) {
    return Tensors{in[0] * frozen + in[0].sin() * w};
  };
  const torch::Tensor x = torch::tensor({0.1F, 0.2F, 0.3F});
  function({x})[0].sum().backward();
  const torch::Tensor expected = w.grad().clone();
  w.mutable_grad().reset();

  const Function fast = compile(function, uncached());
  fast({x})[0].sum().backward();

  REQUIRE(w.grad().defined());
  CHECK(torch::allclose(w.grad(), expected));  // sin(x)
}

TEST_CASE("another default dtype is another version", "[jit][call_state]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0] / 3, torch::ones({3}) + 1}; };
  const Function fast = compile(function, paid());
  const torch::Tensor x = torch::tensor({1, 2, 4}, torch::kLong);
  fast({x});
  fast({x});

  const DefaultDtype other(torch::kDouble);
  const Tensors expected = function({x}), found = fast({x});

  CHECK(found[0].scalar_type() == expected[0].scalar_type());  // Double
  CHECK(found[1].scalar_type() == expected[1].scalar_type());
}

TEST_CASE("the default dtype is in the key of a function with an identity", "[jit][call_state]") {
  const Scratch scratch("third");
  const auto function = [](const Tensors& in) { return Tensors{in[0] / 3}; };
  const torch::Tensor x = torch::tensor({1, 2, 4}, torch::kLong);
  compile(function, scratch.options)({x});

  const DefaultDtype other(torch::kDouble);
  const Function warm = compile(function, scratch.options);

  CHECK(warm({x})[0].scalar_type() == torch::kDouble);
}

TEST_CASE("forward-mode gradients are kept, or refused", "[jit][call_state]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].sin()}; };
  const Function fast = compile(function, uncached());
  const torch::Tensor x = torch::tensor({0.5F, 1.0F}), direction = torch::tensor({1.0F, 2.0F});
  const auto tangent_of = [&](const TensorFunction& run) {
    const std::uint64_t level = torch::autograd::ForwardADLevel::get_next_idx();
    torch::Tensor tangent;
    try {
      const torch::Tensor dual = at::_make_dual(x, direction, static_cast<std::int64_t>(level));
      const torch::Tensor y = run({dual})[0];
      const torch::Tensor found =
          std::get<1>(at::_unpack_dual(y, static_cast<std::int64_t>(level)));
      tangent = found.defined() ? found.clone() : found;
    } catch (...) {
      torch::autograd::ForwardADLevel::release_idx(level);
      throw;
    }
    torch::autograd::ForwardADLevel::release_idx(level);
    return tangent;
  };
  const torch::Tensor expected = tangent_of(function);
  for (int call = 1; call <= 2; ++call) {
    CAPTURE(call);
    const torch::Tensor found = tangent_of(fast);
    REQUIRE(found.defined());
    CHECK(torch::allclose(found, expected));
  }
}

TEST_CASE("a program with a generator of its own is refused by name, and draws nothing",
          "[jit][call_state]") {
  at::Generator generator = at::detail::createCPUGenerator(7);
  const torch::Tensor state = generator.get_state();
  const Function fast = compile(
      [&](const Tensors& in) { return Tensors{at::bernoulli(in[0], 0.5, generator) + in[0]}; },
      uncached());

  CHECK_THROWS_WITH(fast({torch::zeros({64})}),
                    testing::contains("draws from a generator of its own"));
  CHECK(torch::equal(generator.get_state(), state));
}

TEST_CASE("two captured tensors on one memory that have gradients are refused",
          "[jit][call_state]") {
  const torch::Tensor w = torch::tensor({2.0F, 3.0F, 4.0F}).requires_grad_();
  const bool is_view = GENERATE(false, true);
  const torch::Tensor other = is_view ? w.view({3}) : w.detach().requires_grad_();
  const auto function = [&](const Tensors& in) {
    const torch::Tensor first = in[0] * other;  // Before the parameter, whatever the compiler.
    return Tensors{first + in[0].sin() * w};
  };
  const torch::Tensor x = torch::tensor({0.1F, 0.2F, 0.3F});
  CompileOptions options = uncached();

  CHECK_THROWS_WITH(compile(function, options)({x}), testing::contains("both require grad"));

  options.fallback_to_eager = true;
  compile(function, options)({x})[0].sum().backward();
  CHECK(torch::allclose(w.grad(), is_view ? x + x.sin() : x.sin()));
  CHECK((is_view || torch::allclose(other.grad(), x)));
}

TEST_CASE("captured tensors that are parts of one buffer may be written", "[jit][call_state]") {
  const torch::Tensor buffer = torch::ones({8}), same = torch::ones({8});
  const auto on = [](const torch::Tensor& memory) {
    return [state = memory.slice(0, 0, 4), scale = memory.slice(0, 4, 8)](const Tensors& in) {
      state.add_(in[0]);
      return Tensors{in[0] * scale + state};
    };
  };
  const auto eager = on(same);
  const Function fast = compile(on(buffer), uncached());

  for (int i = 1; i < 4; ++i) {
    const torch::Tensor x = torch::full({4}, i);
    CHECK(torch::equal(fast({x})[0], eager({x})[0]));
    CHECK(torch::equal(buffer, same));
  }
  CHECK(fast.report().versions == 1);
}

TEST_CASE("the type that autocast casts to is in the key, though it is off outside",
          "[jit][call_state]") {
  const Scratch scratch("casts inside");
  const auto function = [](const Tensors& in) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const torch::Tensor product = at::mm(in[0], in[0]);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    return Tensors{product};
  };
  const torch::Tensor x = torch::randn({4, 4});
  const at::ScalarType before = at::autocast::get_autocast_dtype(at::kCPU);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  compile(function, scratch.options)({x});

  at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
  const at::ScalarType expected = function({x})[0].scalar_type();
  const at::ScalarType found = compile(function, scratch.options)({x})[0].scalar_type();
  at::autocast::set_autocast_dtype(at::kCPU, before);

  CHECK(found == expected);
  CHECK(expected == at::kHalf);
}

struct TwoWeights : torch::nn::Module {
  torch::Tensor a, b;
  explicit TwoWeights(bool tied) {
    a = register_parameter("a", torch::tensor({1.0F, 2.0F, 3.0F}));
    b = register_parameter("b", tied ? a : torch::tensor({10.0F, 20.0F, 30.0F}));
  }
  torch::Tensor forward(const torch::Tensor& x) { return x * a + b; }
};

TEST_CASE("which parameters are tied is in the key of a module with an identity",
          "[jit][call_state]") {
  const Scratch scratch("two weights");
  const torch::Tensor x = torch::tensor({0.1F, 0.2F, 0.3F});
  compile(std::make_shared<TwoWeights>(true), scratch.options)(x).sum().backward();

  const auto untied = std::make_shared<TwoWeights>(false);
  const torch::Tensor found = compile(untied, scratch.options)(x);
  found.sum().backward();

  CHECK(torch::allclose(found, untied->forward(x)));
  REQUIRE(untied->b.grad().defined());
  CHECK(torch::allclose(untied->b.grad(), torch::ones({3})));
}

TEST_CASE("a cached function that reads by place is not for a tensor that begins elsewhere",
          "[jit][call_state]") {
  const Scratch scratch("by place");
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].as_strided({2, 2}, {2, 1}, 3) * 2};
  };
  const torch::Tensor memory = torch::randn({16});
  const torch::Tensor x = memory.slice(0, 0, 8), moved = memory.slice(0, 2, 10);
  compile(function, scratch.options)({x});

  const Function warm = compile(function, scratch.options);

  CHECK(torch::equal(warm({moved})[0], function({moved})[0]));
}

}  // namespace
}  // namespace kiln
