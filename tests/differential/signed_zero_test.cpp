// Zeros have the signs that ATen gives them.

#include <torch/torch.h>

#include <limits>

#include "compare.hpp"
#include "compiled.hpp"
#include "draw.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::differential {
namespace {

struct Function {
  const char* name;
  at::Tensor (*apply)(const at::Tensor&);
};

// Every pointwise lowering of one operand, and those of two with a number for the other.
const std::vector<Function>& functions() {
  static const std::vector<Function> kFunctions = {
      {"neg", [](const at::Tensor& x) { return at::neg(x); }},
      {"abs", [](const at::Tensor& x) { return at::abs(x); }},
      {"sign", [](const at::Tensor& x) { return at::sign(x); }},
      {"floor", [](const at::Tensor& x) { return at::floor(x); }},
      {"ceil", [](const at::Tensor& x) { return at::ceil(x); }},
      {"round", [](const at::Tensor& x) { return at::round(x); }},
      {"trunc", [](const at::Tensor& x) { return at::trunc(x); }},
      {"reciprocal", [](const at::Tensor& x) { return at::reciprocal(x); }},
      {"sqrt", [](const at::Tensor& x) { return at::sqrt(x); }},
      {"rsqrt", [](const at::Tensor& x) { return at::rsqrt(x); }},
      {"exp", [](const at::Tensor& x) { return at::exp(x); }},
      {"exp2", [](const at::Tensor& x) { return at::exp2(x); }},
      {"expm1", [](const at::Tensor& x) { return at::expm1(x); }},
      {"log", [](const at::Tensor& x) { return at::log(x); }},
      {"log2", [](const at::Tensor& x) { return at::log2(x); }},
      {"log10", [](const at::Tensor& x) { return at::log10(x); }},
      {"log1p", [](const at::Tensor& x) { return at::log1p(x); }},
      {"sin", [](const at::Tensor& x) { return at::sin(x); }},
      {"cos", [](const at::Tensor& x) { return at::cos(x); }},
      {"tanh", [](const at::Tensor& x) { return at::tanh(x); }},
      {"erf", [](const at::Tensor& x) { return at::erf(x); }},
      {"sigmoid", [](const at::Tensor& x) { return at::sigmoid(x); }},
      {"relu", [](const at::Tensor& x) { return at::relu(x); }},
      {"gelu", [](const at::Tensor& x) { return at::gelu(x); }},
      {"gelu by tanh", [](const at::Tensor& x) { return at::gelu(x, "tanh"); }},
      {"silu", [](const at::Tensor& x) { return at::silu(x); }},
      {"leaky_relu", [](const at::Tensor& x) { return at::leaky_relu(x); }},
      {"hardtanh", [](const at::Tensor& x) { return at::hardtanh(x); }},
      {"hardtanh up to 0", [](const at::Tensor& x) { return at::hardtanh(x, -1, 0); }},
      {"clamp from 0", [](const at::Tensor& x) { return at::clamp(x, 0); }},
      {"clamp to 0", [](const at::Tensor& x) { return at::clamp(x, std::nullopt, 0); }},
      {"clamp from -0", [](const at::Tensor& x) { return at::clamp(x, -0.0); }},
      {"pow 1", [](const at::Tensor& x) { return at::pow(x, 1.0); }},
      {"pow 2", [](const at::Tensor& x) { return at::pow(x, 2); }},
      {"pow 3", [](const at::Tensor& x) { return at::pow(x, 3); }},
      {"pow 5", [](const at::Tensor& x) { return at::pow(x, 5); }},
      {"pow 0.5", [](const at::Tensor& x) { return at::pow(x, 0.5); }},
      {"pow -0.5", [](const at::Tensor& x) { return at::pow(x, -0.5); }},
      {"pow -1", [](const at::Tensor& x) { return at::pow(x, -1); }},
      {"pow -3", [](const at::Tensor& x) { return at::pow(x, -3); }},
      {"add 0", [](const at::Tensor& x) { return at::add(x, 0.0); }},
      {"add -0", [](const at::Tensor& x) { return at::add(x, -0.0); }},
      {"sub 0", [](const at::Tensor& x) { return at::sub(x, 0.0); }},
      {"rsub 0", [](const at::Tensor& x) { return at::rsub(x, 0.0); }},
      {"mul 0", [](const at::Tensor& x) { return at::mul(x, 0.0); }},
      {"mul -1", [](const at::Tensor& x) { return at::mul(x, -1.0); }},
      {"div -4", [](const at::Tensor& x) { return at::div(x, -4.0); }},
      {"div 3", [](const at::Tensor& x) { return at::div(x, 3.0); }},
      {"floor_divide", [](const at::Tensor& x) { return at::div(x, 3.0, "floor"); }},
      {"trunc_divide", [](const at::Tensor& x) { return at::div(x, 3.0, "trunc"); }},
      {"threshold_backward", [](const at::Tensor& x) { return at::threshold_backward(x, x, 0); }},
      {"tanh_backward", [](const at::Tensor& x) { return at::tanh_backward(x, x); }},
      {"sigmoid_backward", [](const at::Tensor& x) { return at::sigmoid_backward(x, x); }},
      {"silu_backward", [](const at::Tensor& x) { return at::silu_backward(x, x); }},
      {"gelu_backward", [](const at::Tensor& x) { return at::gelu_backward(x, x); }},
      {"gelu_backward by tanh",
       [](const at::Tensor& x) { return at::gelu_backward(x, x, "tanh"); }},
      {"to float", [](const at::Tensor& x) { return x.to(at::kFloat); }},
      {"to half", [](const at::Tensor& x) { return x.to(at::kHalf); }},
      {"to bfloat16", [](const at::Tensor& x) { return x.to(at::kBFloat16); }},
  };
  return kFunctions;
}

// Enough of each for vectors, and one for what is left over.
constexpr std::int64_t kTimes = 33;

at::Tensor special_values(at::ScalarType dtype) {
  const double tiny = dtype == at::kDouble ? 5e-324 : dtype == at::kHalf ? 6e-8 : 1e-39;
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {0.0, -0.0, tiny, -tiny, infinity, -infinity, -40, 40};
  return at::tensor(values, at::kDouble).to(dtype).repeat_interleave(kTimes);
}

Tensors apply_all(const at::Tensor& x) {
  Tensors results;
  for (const Function& function : functions()) {
    results.push_back(function.apply(x));
  }
  return results;
}

// Without vectors: each of the values that `x` repeats is a tensor of its own.
at::Tensor one_by_one(const Function& function, const at::Tensor& x) {
  Tensors results;
  for (std::int64_t i = 0; i < x.numel(); i += kTimes) {
    results.push_back(function.apply(x.narrow(0, i, 1)));
  }
  return at::cat(results).repeat_interleave(kTimes);
}

TEST_CASE("zeros have the signs that ATen gives them", "[differential][signed_zero]") {
  const auto dtype = GENERATE(at::kFloat, at::kDouble, at::kHalf, at::kBFloat16);
  const at::Tensor x = special_values(dtype);
  const Tensors expected = apply_all(x);

  const Tensors found =
      run_compiled(traced([](const Tensors& inputs) { return apply_all(inputs[0]); }, {x}), {x});

  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO(functions()[i].name << " of " << at::toString(dtype));
    // Where ATen's vectors and its scalars differ nothing is settled: gelu of infinity is NaN in
    // the one and infinity in the other, and relu of -0 is 0 in NEON's vectors alone.
    const at::Tensor alone = one_by_one(functions()[i], x);
    // A result near zero may be one: only a zero in both has to have the same sign.
    const at::Tensor zeros = (expected[i] == 0) & (found[i] == 0) & (alone == 0);
    const at::Tensor wrong = zeros & (expected[i].signbit() == alone.signbit()) &
                             (expected[i].signbit() != found[i].signbit());
    INFO("of " << x.masked_select(wrong).to(at::kDouble));
    CHECK_FALSE(wrong.any().item<bool>());
    const at::Tensor settled = expected[i].isnan() == alone.isnan();
    CHECK_FALSE((settled & (expected[i].isnan() != found[i].isnan())).any().item<bool>());
    CHECK_FALSE((settled & (expected[i].isinf() != found[i].isinf())).any().item<bool>());
  }
}

}  // namespace
}  // namespace kiln::differential
