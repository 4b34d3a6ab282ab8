// Integers among the arguments of functions: which of them are symbols, and that calls do what
// eager does at every value.

#include <torch/torch.h>

#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kiln/base/temporary_directory.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using testing::contains;

bool is_close(const torch::Tensor& a, const torch::Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && torch::allclose(a, b, 1e-4, 1e-5);
}

// Calls a function of a tensor and an integer with each of `integers`, and returns what was made.
template <class F>
CompileReport report_for(const F& function,
                         const torch::Tensor& x,
                         const std::vector<std::int64_t>& integers,
                         CompileOptions options = uncached(PastMaxVersions::kError)) {
  const auto fast = compile(function, std::move(options));
  for (const std::int64_t n : integers) {
    INFO("the integer " << n);
    CHECK(is_close(fast(x, n), function(x, n)));
  }
  return fast.report();
}

TEST_CASE("DS-31 ten integers make two versions", "[jit][integers]") {
  const auto function = [](const torch::Tensor& x, std::int64_t n) {
    return (x + n) * (2 * n + 1);
  };
  const torch::Tensor x = torch::randn({3, 4});

  const CompileReport ten = report_for(function, x, {5, 6, 7, 8, 9, 1000, 0, 1, 37, 6});

  CHECK(ten.versions == 2);
  CHECK(ten.compiles == 2);
  CHECK(ten.details[0].symbols.empty());
  CHECK_THAT(ten.details[0].specialisations.back(), contains("integer 0 is 5"));
  CHECK(ten.details[1].reason == "integer 0: 1000, compiled for 5");
  REQUIRE(ten.details[1].symbols.size() == 1);
  CHECK(ten.details[1].symbols[0] == "'s0' in 0 … 1000: integer 0");
}

TEST_CASE("a function is called only with integers between those of its calls", "[jit][integers]") {
  std::vector<torch::Tensor> weights(40, torch::Tensor());
  for (torch::Tensor& weight : weights) {
    weight = torch::randn({3, 3});
  }
  std::int64_t least = 100, largest = 0;
  const auto function = [&](const torch::Tensor& x, std::int64_t layer) {
    least = std::min(least, layer);
    largest = std::max(largest, layer);
    return x.matmul(weights.at(static_cast<std::size_t>(layer)));
  };
  const auto fast = compile(function, uncached(PastMaxVersions::kEager));
  const torch::Tensor x = torch::randn({3, 3});

  for (const std::int64_t layer : {7, 8, 23, 30, 5, 29, 11}) {
    CHECK(is_close(fast(x, layer), x.matmul(weights[static_cast<std::size_t>(layer)])));
  }

  CHECK(least == 5);
  CHECK(largest == 30);
}

TEST_CASE("an integer that no trace has visited is traced before it is served", "[jit][integers]") {
  const torch::Tensor x = torch::randn({7, 3});
  const auto function = [](const torch::Tensor& t, std::int64_t step) {
    return step % 20 == 0 || step == 333 ? t.cos() * step : t.sin() + step;
  };
  CompileOptions options = uncached(PastMaxVersions::kEager);
  const std::vector<std::int64_t> steps = {5, 6, 19, 31, 20, 21, 40, 20, 333, 1001, 100, 333};

  const CompileReport each = report_for(function, x, steps, options);
  CHECK(each.details.at(1).symbols.size() == 1);

  options.verify_new_sizes = VerifySizes::kNever;
  const auto fast = compile(function, options);
  for (const std::int64_t step : {5, 6, 19, 31}) {
    static_cast<void>(fast(x, step));
  }
  const int traces = fast.report().traces;
  CHECK(is_close(fast(x, 23), function(x, 23)));
  CHECK(fast.report().traces == traces);
}

TEST_CASE("a counter goes on after a step that does something else", "[jit][integers]") {
  const auto function = [](const torch::Tensor& x, std::int64_t step) {
    return step % 20 == 0 ? x.cos() * step : x.sin() + step;
  };
  std::vector<std::int64_t> steps(59);
  std::iota(steps.begin(), steps.end(), 1);

  const CompileReport report = report_for(function, torch::randn({7, 3}), steps);

  CHECK(report.versions <= 3);
  CHECK_THAT(report.details.at(1).symbols.at(0), contains("59: integer 0"));
}

TEST_CASE("an integer that was visited beside other sizes is traced again", "[jit][integers]") {
  const auto function = [](const torch::Tensor& x, std::int64_t step) {
    return step == x.size(0) - 1 ? x.cos() : x.sin() + step;
  };
  const auto fast = compile(function, uncached());

  for (const auto& [rows, step] : {std::pair(30, 0),
                                   std::pair(40, 25),
                                   std::pair(50, 29),
                                   std::pair(30, 29),
                                   std::pair(31, 29),
                                   std::pair(30, 29),
                                   std::pair(60, 29)}) {
    CAPTURE(rows, step);
    const torch::Tensor x = torch::randn({rows, 2});
    CHECK(is_close(fast(x, step), function(x, step)));
  }

  CHECK(fast.report().details.at(1).symbols.size() == 2);
}

TEST_CASE("verify_new_sizes = kAll traces sizes that are new", "[jit][integers]") {
  CompileOptions options = uncached(PastMaxVersions::kEager);
  options.verify_new_sizes = VerifySizes::kAll;
  const auto function = [](const torch::Tensor& t) {
    return t.size(0) == 359 ? t.cos() : t.sin() * t.size(0);
  };
  const auto fast = compile(function, options);

  for (const std::int64_t n : {5, 6, 359, 200, 359, 200, 360}) {
    const torch::Tensor x = torch::randn({n, 2});
    CHECK(is_close(fast(x), function(x)));
  }

  CHECK(fast.report().versions == 3);
}

TEST_CASE("modes have a version each, in which sizes vary", "[jit][integers]") {
  const auto function = [](const torch::Tensor& t, std::int64_t mode) {
    return mode == 0 ? t.sin() : mode == 1 ? t.cos() : t.exp();
  };
  const auto fast = compile(function, uncached(PastMaxVersions::kError));

  for (const std::int64_t rows : {5, 6, 7, 2000, 8, 3000}) {
    for (const std::int64_t mode : {0, 1, 2}) {
      const torch::Tensor x = torch::randn({rows, 2});
      CHECK(is_close(fast(x, mode), function(x, mode)));
    }
  }

  CHECK(fast.report().versions <= 6);
}

TEST_CASE("an integer beyond the range is traced, not compiled", "[jit][integers]") {
  const auto function = [](const torch::Tensor& x, std::int64_t n) { return x * n; };

  const CompileReport report =
      report_for(function, torch::randn({3}), {5, 6, 1'000'000, 2'000'000'000, 7});

  CHECK(report.versions == 2);
  CHECK(report.compiles == 2);
}

TEST_CASE("with dynamic = true, an integer is a symbol from the first call on", "[jit][integers]") {
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.dynamic = true;
  const auto function = [](const torch::Tensor& x, int n, const at::Scalar& by) {
    return torch::cat({x, torch::full({n, x.size(1)}, 2.0)}) * by;
  };
  const auto fast = compile(function, options);
  const torch::Tensor x = torch::randn({9, 4});

  for (const int n : {3, 5, 8, 40}) {
    CHECK(is_close(fast(x, n, n + 11), function(x, n, n + 11)));
  }

  CHECK(fast.report().versions == 1);
}

TEST_CASE("without automatic_dynamic each integer is a version", "[jit][integers]") {
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.automatic_dynamic = false;

  const CompileReport report =
      report_for([](const torch::Tensor& x, std::int64_t n) { return x + n; },
                 torch::randn({3}),
                 {1, 2, 3, 1},
                 options);

  CHECK(report.versions == 3);
}

// One step of a decoder: writes keys and values at a position of their caches, and attends to all
// positions up to it.
torch::Tensor decode(const torch::Tensor& x,
                     const torch::Tensor& keys,
                     const torch::Tensor& values,
                     std::int64_t position) {
  keys.select(1, position).copy_(x.sin());
  values.narrow(1, position, 1).copy_(x.cos().unsqueeze(1));
  const torch::Tensor seen = keys.slice(1, 0, position + 1);
  const torch::Tensor scores =
      (seen.matmul(x.unsqueeze(-1)).squeeze(-1) / std::sqrt(8.0)).softmax(-1);
  return scores.unsqueeze(1).matmul(values.narrow(1, 0, position + 1)).squeeze(1) + position;
}

TEST_CASE("a decoding position is a symbol", "[jit][integers]") {
  constexpr std::int64_t kLength = 40;
  const torch::NoGradGuard no_grad;
  const auto fast = compile(decode, uncached(PastMaxVersions::kError));
  torch::Tensor keys = torch::zeros({2, kLength, 8}), values = torch::zeros({2, kLength, 8});
  const torch::Tensor own_keys = keys.clone(), own_values = values.clone();

  int traces = 0;
  for (std::int64_t position = 0; position < kLength; ++position) {
    INFO("position " << position);
    const torch::Tensor x = torch::randn({2, 8});
    CHECK(is_close(fast(x, keys, values, position), decode(x, own_keys, own_values, position)));
    CHECK(is_close(keys, own_keys));
    CHECK(is_close(values, own_values));
    if (position == 19) {
      traces = fast.report().traces;
    }
  }

  const CompileReport report = fast.report();
  CHECK(report.versions == 2);
  CHECK(report.traces == traces + kLength - 20);  // One for each position.
  CHECK_THAT(report.details.back().symbols.at(0), contains("39: integer 0"));
  CHECK_THROWS(fast(torch::randn({2, 8}), keys, values, kLength));
}

TEST_CASE("integers that decide what a function does are versions, never wrong",
          "[jit][integers]") {
  const torch::Tensor x = torch::randn({7, 3});
  CompileOptions options = uncached(PastMaxVersions::kEager);
  options.max_versions = 32;

  SECTION("odd and even") {
    const CompileReport report = report_for(
        [](const torch::Tensor& t, std::int64_t n) { return n % 2 == 0 ? t.sin() : t.cos(); },
        x,
        {2, 4, 5, 6, 7, 8, 11, 30, 30, 12},
        options);
    CHECK(report.versions > 1);
    for (const VersionReport& version : report.details) {
      CHECK(version.symbols.empty());
    }
  }
  SECTION("a branch") {
    const CompileReport report =
        report_for([](const torch::Tensor& t, std::int64_t n) { return n < 10 ? t * n : t - n; },
                   x,
                   {3, 4, 9, 10, 11, 12, 500, 8},
                   options);
    CHECK(report.versions <= 4);
  }
  SECTION("an index, also from the end") {
    const CompileReport report =
        report_for([](const torch::Tensor& t, std::int64_t n) { return t[n] * 2; },
                   torch::randn({40, 3}),
                   {2, 3, -1, -2, 0, 39, 1, -7, 17},
                   options);
    CHECK(report.versions == 5);  // Two, and one for each that is negative.
  }
  SECTION("a remainder, a quotient and a sign") {
    report_for(
        [](const torch::Tensor& t, std::int64_t n) {
          return t * (n % 5) + n / 3 - (n > 6 ? 1 : 0) + std::min<std::int64_t>(n, 12);
        },
        x,
        {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 30, 1025},
        options);
  }
}

TEST_CASE("an integer that a function returns is that of the call", "[jit][integers]") {
  const auto function = [](const torch::Tensor& x, std::int64_t n) {
    return std::pair(x + n, 3 * n);
  };
  const auto fast = compile(function, uncached(PastMaxVersions::kError));
  const torch::Tensor x = torch::randn({3});

  for (const std::int64_t n : {4, 5, 6, 4}) {
    const auto [sum, number] = fast(x, n);
    CHECK(is_close(sum, x + n));
    CHECK(number == 3 * n);
  }
}

TEST_CASE("integers and sizes that differ from each other are symbols of their own",
          "[jit][integers]") {
  const auto function = [](const torch::Tensor& x, std::int64_t n, std::int64_t m) {
    return torch::cat({x * n, torch::full({m}, 2.0)}).cumsum(0) - m;
  };
  const auto fast = compile(function, uncached(PastMaxVersions::kError));
  const auto check = [&](std::int64_t size, std::int64_t n, std::int64_t m) {
    const torch::Tensor x = torch::randn({size});
    CHECK(is_close(fast(x, n, m), function(x, n, m)));
    return fast.report().versions;
  };

  CHECK(check(5, 5, 4) == 1);
  CHECK(check(46, 46, 39) == 2);  // The size and n are one symbol.
  CHECK(check(7, 7, 12) == 2);
  CHECK(check(7, 8, 12) == 2);  // As it is.
  CHECK(check(7, 8, 12) == 3);
}

TEST_CASE("a function of an integer is trained", "[jit][integers]") {
  torch::nn::Linear linear(4, 4);
  auto function = [linear](const torch::Tensor& x, std::int64_t n) mutable {
    return (linear(x).narrow(0, 0, n) * n).pow(2).sum();
  };
  const auto fast = compile(linear, function, uncached(PastMaxVersions::kError));
  const torch::Tensor x = torch::randn({30, 4});

  for (const std::int64_t n : {3, 4, 29, 7, 2}) {
    linear->zero_grad();
    fast(x, n).backward();
    const torch::Tensor found = linear->weight.grad().clone();
    linear->zero_grad();
    function(x, n).backward();
    CHECK(is_close(found, linear->weight.grad()));
  }

  CHECK(fast.report().versions == 2);
}

TEST_CASE("integers among structured arguments vary too", "[jit][integers]") {
  const ValueFunction function = [](const Values& in) -> c10::IValue {
    return in[0].toTensor().narrow(0, 0, in[1].toTupleRef().elements()[0].toInt()) + 1;
  };
  const StructuredFunction fast = compile(function, uncached(PastMaxVersions::kError));
  const torch::Tensor x = torch::randn({20});

  for (const std::int64_t n : {3, 4, 18, 9, 20}) {
    const c10::IValue pair = c10::ivalue::Tuple::create({n, true});
    CHECK(is_close(fast({x, pair}).toTensor(), x.narrow(0, 0, n) + 1));
  }

  CHECK(fast.report().versions == 2);
}

TEST_CASE("one cache entry serves a range of integers, each traced once", "[jit][integers]") {
  const TemporaryDirectory directory;
  CompileOptions options;
  options.cache_directory = directory.path();
  options.identity = "shifted";
  const auto function = [](const torch::Tensor& x, std::int64_t n) { return x.sin() + n; };
  const torch::Tensor x = torch::randn({3});
  report_for(function, x, {5, 60}, options);

  const CompileReport again = report_for(function, x, {17, 9, 17, 100, 9}, options);

  CHECK(again.versions == 1);
  CHECK(again.compiles == 0);
  CHECK(again.details.at(0).origin == Origin::kCached);
  options.verify_new_sizes = VerifySizes::kNever;
  CHECK(report_for(function, x, {17, 9, 60}, options).traces == 0);
}

TEST_CASE("a call within a trace leaves nothing but what it computes", "[jit][integers]") {
  const auto inner =
      compile([](const torch::Tensor& x, std::int64_t n) { return x * n; }, uncached());
  const auto outer =
      compile([&](const torch::Tensor& x) { return inner(x, 3) + inner(x, 4); }, uncached());
  const torch::Tensor x = torch::randn({3});

  CHECK(is_close(outer(x), x * 7));
  CHECK(outer.report().graphs.at(0).nodes == 3);
}

}  // namespace
}  // namespace kiln
