// Statistics of numbers whose mean is large and whose variance is small: as close to the
// truth as those that eager computes.

#include <torch/torch.h>

#include <limits>

#include "compare.hpp"
#include "compiled.hpp"
#include "draw.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::differential {
namespace {

// The largest relative distance from what double precision gives.
double error_of(const at::Tensor& found, const at::Tensor& truth) {
  return ((found.to(at::kDouble) - truth) / truth).abs().max().item<double>();
}

// Each output is at most a few times as far from the truth as eager's, or rounded in the end.
void check_statistics(const capture::TensorFunction& function, const at::Tensor& x) {
  const Tensors truth = function({x.to(at::kDouble)});
  const Tensors expected = function({x});

  const Tensors found = run_compiled(traced(function, {x}), {x});

  const double last_place = x.scalar_type() == at::kFloat ? 6e-7 : 2e-3;
  REQUIRE(found.size() == truth.size());
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double allowed = std::max(last_place, 4 * error_of(expected[i], truth[i]));
    INFO("output " << i << ", of which eager is off by " << error_of(expected[i], truth[i]));
    CHECK(error_of(found[i], truth[i]) <= allowed);
  }
}

at::Tensor far_from_zero(at::IntArrayRef sizes, double mean, double deviation) {
  at::manual_seed(1);
  return (at::randn(sizes, at::kDouble) * deviation + mean).to(at::kFloat);
}

TEST_CASE("variances are as exact as eager's, however large the mean is",
          "[differential][variance]") {
  const auto [mean, deviation] = GENERATE(
      std::pair(0.0, 1.0), std::pair(1e3, 1e-2), std::pair(-1e3, 1e-3), std::pair(1e4, 1e-2));

  check_statistics(
      [](const Tensors& in) {
        return Tensors{at::var(in[0], {1}, 0, false),
                       at::var(in[0], {0}, 1, true),
                       at::var(in[0], at::OptionalIntArrayRef(), 1, false),
                       at::std(in[0], {1}, 1, false),
                       std::get<0>(at::var_mean(in[0], {1}, 1, true))};
      },
      far_from_zero({40, 700}, mean, deviation));
}

TEST_CASE("norms take statistics that are as exact as eager's", "[differential][variance]") {
  const auto [mean, deviation] =
      GENERATE(std::pair(0.5, 1.0), std::pair(1e3, 1e-2), std::pair(-1e3, 1e-3));

  check_statistics(
      [](const Tensors& in) {
        const auto rows = at::native_layer_norm(in[0], {20, 35}, {}, {}, 0);
        const auto groups = at::native_group_norm(in[0], {}, {}, 16, 20, 35, 4, 0);
        const at::Tensor zeros = at::zeros({20}, in[0].options());
        const auto channels =
            at::_native_batch_norm_legit_functional(in[0], {}, {}, zeros, zeros, true, 1, 1e-15);
        return Tensors{
            std::get<2>(rows), std::get<2>(groups), std::get<2>(channels), std::get<4>(channels)};
      },
      far_from_zero({16, 20, 35}, mean, deviation));
}

TEST_CASE("equal numbers are their own mean, and are normalised to zeros",
          "[differential][variance]") {
  const at::Tensor x = at::full({4, 21, 64}, 0.91122F);
  const auto function = [](const Tensors& in) {
    const at::Tensor zeros = at::zeros({21}, in[0].options());
    const auto rows = at::native_layer_norm(in[0], {64}, {}, {}, 1e-5);
    const auto groups = at::native_group_norm(in[0], {}, {}, 4, 21, 64, 7, 1e-5);
    return Tensors{std::get<0>(rows),
                   std::get<1>(rows),
                   std::get<0>(groups),
                   std::get<0>(at::var_mean(in[0], at::IntArrayRef{0, 2}, 1, true)),
                   std::get<1>(at::var_mean(in[0], at::IntArrayRef{0, 2}, 1, true)),
                   std::get<0>(at::_native_batch_norm_legit_functional(
                       in[0], {}, {}, zeros, zeros, true, 1, 1e-5))};
  };

  const Tensors found = run_compiled(traced(function, {x}), {x});

  CHECK(found[0].abs().max().item<float>() == 0);
  CHECK(at::equal(found[1], at::full({4, 21, 1}, 0.91122F)));
  CHECK(found[2].abs().max().item<float>() == 0);
  CHECK(found[3].abs().max().item<float>() == 0);
  CHECK(at::equal(found[4], at::full({1, 21, 1}, 0.91122F)));
  CHECK(found[5].abs().max().item<float>() == 0);
}

TEST_CASE("the variance of equal, infinite and very large numbers is eager's",
          "[differential][variance]") {
  const auto dtype = GENERATE(at::kFloat, at::kHalf, at::kBFloat16);
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor x = at::stack({at::full({50}, 0.1F),
                                  at::full({50}, 12345.678F),
                                  at::full({50}, infinity),
                                  at::linspace(-1e37, 3e38, 50)})
                           .to(dtype);
  const auto function = [](const Tensors& in) {
    return Tensors{at::var(in[0], {1}, 1, false), at::var(in[0], {1}, 0, true)};
  };

  const Tensors found = run_compiled(traced(function, {x}), {x});

  const Tensors expected = function({x});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(difference(expected[i], found[i], Closeness::kAnyZero).value_or("") == "");
  }
}

}  // namespace
}  // namespace kiln::differential
