// Where half and bfloat16 are rounded: when they are stored, and where the program makes
// another type of them.

#include <torch/torch.h>

#include "compare.hpp"
#include "compiled.hpp"
#include "draw.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::differential {
namespace {

// Outputs that must be those of eager to the last bit: each is rounded once from what is exact.
void check_exact(const capture::TensorFunction& function, const Tensors& inputs) {
  const Tensors expected = function(inputs);

  const Tensors found = run_compiled(traced(function, inputs), inputs);

  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("output " << i);
    CHECK(difference(expected[i], found[i], Closeness::kExact).value_or("") == "");
  }
}

at::Tensor numbers(at::ScalarType dtype, double scale = 1) {
  return (at::randn({7, 33}, at::kDouble) * scale).to(dtype);
}

TEST_CASE("a half that the program converts is rounded first", "[differential][half]") {
  at::manual_seed(1);
  const auto half = GENERATE(at::kHalf, at::kBFloat16);
  const auto other = half == at::kHalf ? at::kBFloat16 : at::kHalf;

  check_exact(
      [&](const Tensors& in) {
        const at::Tensor sum = in[0] + in[1];
        return Tensors{sum.to(at::kFloat),
                       sum.to(at::kDouble),
                       sum.to(other),
                       sum.to(at::kInt),
                       sum.type_as(in[2])};
      },
      {numbers(half), numbers(half), numbers(at::kFloat)});
}

TEST_CASE("a half is one number, whether it is stored or not", "[differential][half]") {
  at::manual_seed(2);
  const auto half = GENERATE(at::kHalf, at::kBFloat16);

  check_exact(
      [&](const Tensors& in) {
        const at::Tensor sum = in[0] + in[1];
        return Tensors{sum, sum.to(at::kFloat), sum.to(at::kFloat).to(half), sum.clone()};
      },
      {numbers(half), numbers(half)});
}

TEST_CASE("chains of conversions round at each of them", "[differential][half]") {
  at::manual_seed(3);
  const auto half = GENERATE(at::kHalf, at::kBFloat16);

  check_exact(
      [&](const Tensors& in) {
        const at::Tensor product = in[0] * in[0];
        const at::Tensor narrow = in[1].to(half);
        return Tensors{product.to(at::kFloat).mul(3).to(half).to(at::kFloat),
                       narrow.to(at::kFloat),
                       (narrow + narrow).to(at::kDouble),
                       in[1].to(at::kFloat).to(half).to(at::kDouble),
                       in[1].mul(1e-6).to(half).to(at::kFloat)};
      },
      {numbers(half), numbers(at::kDouble, 1e4)});
}

TEST_CASE("a half beside a wider type is rounded first", "[differential][half]") {
  at::manual_seed(4);
  const auto half = GENERATE(at::kHalf, at::kBFloat16);

  check_exact(
      [&](const Tensors& in) {
        const at::Tensor sum = in[0] + in[1];
        const at::Tensor wide = in[2];
        return Tensors{sum + wide,
                       at::where(wide > 0, sum, wide),
                       at::cat({sum, wide}),
                       sum.amax(1).to(at::kFloat),
                       sum == in[3],
                       sum.argmax(1)};
      },
      {numbers(half), numbers(half), numbers(at::kFloat), numbers(half)});
}

TEST_CASE("a half too large for its type is infinite where it is converted",
          "[differential][half]") {
  const at::Tensor large = at::full({40}, 60000, at::kHalf);

  check_exact(
      [](const Tensors& in) {
        const at::Tensor sum = in[0] + in[0];
        return Tensors{sum.to(at::kFloat), sum.isinf(), sum};
      },
      {large});
}

}  // namespace
}  // namespace kiln::differential
