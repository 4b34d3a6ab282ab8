// How many versions are compiled for integers that are adjacent, or that are passed repeatedly.

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using OfInteger = std::function<torch::Tensor(const torch::Tensor&, std::int64_t)>;

// Calls a function with each of `integers`, twice, and returns the report. The function must not
// be run with other integers.
CompileReport report_of_two_rounds(const OfInteger& function,
                                   const std::vector<std::int64_t>& integers,
                                   PastMaxVersions past = PastMaxVersions::kError) {
  const auto [least, largest] = std::ranges::minmax(integers);
  const auto watched = [&](const torch::Tensor& x, std::int64_t n) {
    CHECK(n >= least);
    CHECK(n <= largest);
    return function(x, n);
  };
  const auto fast = compile(watched, uncached(past));
  const torch::Tensor x = torch::randn({12, 5});
  for (int round = 0; round < 2; ++round) {
    for (const std::int64_t n : integers) {
      CAPTURE(round, n);
      const torch::Tensor found = fast(x, n), expected = function(x, n);
      CHECK(found.sizes() == expected.sizes());
      CHECK(torch::allclose(found, expected, 1e-4, 1e-5));
    }
  }
  return fast.report();
}

TEST_CASE("DS-31 ten neighbours, called twice over, make a few versions", "[jit][integers]") {
  const std::vector<std::int64_t> ten = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

  const CompileReport scaled = report_of_two_rounds(
      [](const torch::Tensor& x, std::int64_t n) { return (x + n) * (2 * n + 1); }, ten);
  CHECK(scaled.versions <= 3);
  CHECK(scaled.details.back().symbols.size() == 1);

  const CompileReport narrowed = report_of_two_rounds(
      [](const torch::Tensor& x, std::int64_t n) { return x.narrow(0, 0, n).sin().sum(0) + n; },
      ten);
  CHECK(narrowed.versions <= 3);
  CHECK(narrowed.details.back().symbols.size() == 1);

  const CompileReport downwards = report_of_two_rounds(
      [](const torch::Tensor& x, std::int64_t n) { return x * n + x.select(0, n); },
      {9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
  CHECK(downwards.versions <= 3);
}

TEST_CASE("DS-31 eight neighbours at most make no more versions than there may be",
          "[jit][integers]") {
  const OfInteger scaled = [](const torch::Tensor& x, std::int64_t n) { return (x + n) * n; };

  CHECK(report_of_two_rounds(scaled, {0, 1, 2, 3, 4, 5, 6}).versions == 7);
  CHECK(report_of_two_rounds(scaled, {0, 1, 2, 3, 4, 5, 6, 7}).versions <= 8);
}

TEST_CASE("neighbours that are cases of a switch make a version each", "[jit][integers]") {
  const CompileReport report = report_of_two_rounds(
      [](const torch::Tensor& x, std::int64_t n) {
        return n % 3 == 0 ? x.sin() : n % 3 == 1 ? x.cos() : x.exp();
      },
      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
      PastMaxVersions::kEager);

  for (const VersionReport& version : report.details) {
    CHECK(version.symbols.empty());
  }
}

TEST_CASE("an integer is not taken for tried where nothing made it a symbol", "[jit][integers]") {
  const auto fast =
      compile([](const torch::Tensor& x, std::int64_t n) { return x.sin() * n; }, uncached());
  const torch::Tensor vector = torch::ones({3}), matrix = torch::ones({3, 4});

  static_cast<void>(fast(vector, 5));
  static_cast<void>(fast(matrix, 40));  // The first call of these ranks.
  static_cast<void>(fast(matrix, 41));

  const CompileReport report = fast.report();
  CHECK(report.versions == 3);
  CHECK(report.details.back().symbols.size() == 1);
  CHECK(torch::allclose(fast(matrix, 23), matrix.sin() * 23));
  CHECK(fast.report().compiles == 3);
}

TEST_CASE("arguments may begin anywhere in their memory", "[jit][integers]") {
  int runs = 0;
  const auto function = [&](const torch::Tensor& x, std::int64_t n) {
    ++runs;
    return x.narrow(0, 2, 3).sin() * n + x.sum();
  };
  const auto fast = compile(function, uncached(PastMaxVersions::kError));
  const torch::Tensor rows = torch::randn({60, 8});
  for (std::int64_t n = 0; n < 40; ++n) {
    CAPTURE(n);
    const torch::Tensor x = rows.select(0, n), expected = function(x, n);
    runs = 0;
    CHECK(torch::allclose(fast(x, n), expected, 1e-4, 1e-5));
    CHECK((runs == 1 || n == 11));  // Its trace, or eagerly.
  }
  CHECK(fast.report().versions == 2);

  const auto of_sizes = compile([](const torch::Tensor& x) { return x.narrow(0, 1, 2).sin(); },
                                uncached(PastMaxVersions::kError));
  for (const std::int64_t size : {3, 4, 9, 20}) {
    const torch::Tensor x = rows.view(-1).narrow(0, size, size);
    CHECK(torch::allclose(of_sizes(x), x.narrow(0, 1, 2).sin()));
  }
  CHECK(of_sizes.report().versions == 2);
}

}  // namespace
}  // namespace kiln
