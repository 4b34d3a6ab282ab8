#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kiln/ir/fit.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

using Number = std::function<double(double)>;

constexpr std::int64_t kLargest = 512;

std::vector<Bindings> first_samples() {
  std::vector<Bindings> samples;
  for (const std::int64_t size : {5, 7, 12, 16, 23, 64, 91, 200, 128}) {
    samples.push_back({{"n", size}});
  }
  return samples;
}

std::vector<double> values_of(const Number& number, const std::vector<Bindings>& samples) {
  std::vector<double> values;
  for (const Bindings& sample : samples) {
    values.push_back(number(static_cast<double>(sample.at("n"))));
  }
  return values;
}

// With samples added as they are asked for.
std::optional<RealExpr> fitted(const Number& number, std::vector<RealExpr> offered = {}) {
  std::vector<Bindings> samples = first_samples();
  for (int round = 0; round < 6; ++round) {
    ExprFitter fitter(samples, {{"n", {1, kLargest}}});
    for (const RealExpr& real : offered) {
      fitter.offer(real);
    }
    const std::optional<RealExpr> found = fitter.fit(values_of(number, samples));
    if (found || fitter.undecided().empty()) {
      return found;
    }
    for (std::size_t i = 0; i < 4 && i < fitter.undecided().size(); ++i) {
      samples.push_back(fitter.undecided()[i]);
    }
  }
  return std::nullopt;
}

int wrong_bits(const RealExpr& real, const Number& number) {
  int wrong = 0;
  for (std::int64_t n = 1; n <= kLargest; ++n) {
    wrong += real.evaluate({{"n", n}}) != number(static_cast<double>(n)) ? 1 : 0;
  }
  return wrong;
}

std::string text_of(const std::optional<RealExpr>& real) {
  return real ? real->to_string() : "nothing";
}

TEST_CASE("numbers are found with their last bits, at every size", "[ir][fit]") {
  const std::vector<Number> numbers = {[](double n) { return 1.0 / n; },
                                       [](double n) { return n * 0.3; },
                                       [](double n) { return n / 3.0; },
                                       [](double n) { return n * (1.0 / 3.0); },
                                       [](double n) { return 0.1 * (1.0 / n); },
                                       [](double n) { return 2.0 / (n - 1.0); },
                                       [](double n) { return 2.0 / (3.0 * n); },
                                       [](double n) { return 1.0 / (2.0 * n + 1.0); },
                                       [](double n) { return std::sqrt(n); },
                                       [](double n) { return 0.7 * std::sqrt(n); },
                                       [](double n) { return 1.0 / std::sqrt(n); },
                                       [](double n) { return 1.0 / std::sqrt(2.0 * n); },
                                       [](double n) { return 0.1 / (n * n); },
                                       [](double n) { return n * n * 0.1; },
                                       [](double n) { return n / (n - 1.0 + (n == 1.0)); },
                                       [](double n) { return (n + 1.0) / n * 0.9; },
                                       [](double n) { return -0.25 * n; }};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::optional<RealExpr> found = fitted(numbers[i]);
    CAPTURE(i, text_of(found));
    REQUIRE(found);
    // One of them divides by zero where there is one row.
    CHECK(wrong_bits(*found, numbers[i]) <= (i == 14 ? 1 : 0));
  }
}

TEST_CASE("numbers of single precision are found as such", "[ir][fit]") {
  const auto one_nth = [](double n) { return static_cast<double>(1.0F / static_cast<float>(n)); };
  const auto tenths = [](double n) { return static_cast<double>(0.1F * static_cast<float>(n)); };

  CHECK(text_of(fitted(one_nth)) == "round_to_float(divide(1.0, float(n)))");
  CHECK(text_of(fitted(tenths)) == "round_to_float(multiply(float(n), 0.10000000149011612))");
}

TEST_CASE("numbers of two symbols are found", "[ir][fit]") {
  std::vector<Bindings> samples;
  for (std::int64_t i = 0; i < 24; ++i) {
    samples.push_back({{"n", 5 + 7 * i % 41}, {"m", 3 + 11 * i % 37}});
  }
  ExprFitter fitter(samples, {{"m", {1, 64}}, {"n", {1, 64}}});
  std::vector<double> area, ratio;
  for (const Bindings& sample : samples) {
    area.push_back(1.0 / static_cast<double>(sample.at("n") * sample.at("m")));
    ratio.push_back(static_cast<double>(sample.at("n") - 1) / static_cast<double>(sample.at("m")));
  }

  CHECK(text_of(fitter.fit(area)) == "divide(1.0, float(m*n))");
  CHECK(text_of(fitter.fit(ratio)) == "divide(float(n - 1), float(m))");
}

// What a sample cannot tell apart is not guessed, and what is no such formula is not found.
TEST_CASE("programs made to fool the fit of numbers are refused", "[ir][fit]") {
  CHECK_FALSE(fitted([](double n) { return 1.0 / std::fmin(n, 50.0); }));
  CHECK_FALSE(fitted([](double n) { return 1.0 / std::fmin(n, 199.0); }));
  CHECK_FALSE(fitted([](double n) { return n < 10.0 ? 1.0 / n : 2.0 / n; }));
  CHECK_FALSE(fitted([](double n) { return 1.0 / (n - std::fmod(n, 2.0)); }));
  CHECK_FALSE(fitted([](double n) { return 1.0 / n + (n == 91.0 ? 1e-17 : 0.0); }));
  CHECK_FALSE(fitted([](double n) { return std::nextafter(1.0 / n, n == 128.0 ? 1.0 : 0.0); }));
  CHECK_FALSE(fitted([](double n) { return std::log(n); }));
  CHECK_FALSE(fitted([](double n) { return std::exp(-n / 100.0); }));
  CHECK_FALSE(fitted([](double n) { return n * 0.1 * 3.0; }));
  CHECK_FALSE(fitted([](double n) { return n * 0.3 + 1.5; }));
}

TEST_CASE("formulas that the samples do not tell apart are not chosen from", "[ir][fit]") {
  // At powers of two all orders of operations give the same.
  std::vector<Bindings> samples;
  for (const std::int64_t size : {2, 4, 8, 16, 32, 64}) {
    samples.push_back({{"n", size}});
  }
  ExprFitter fitter(samples, {{"n", {1, kLargest}}});

  CHECK_FALSE(fitter.fit(values_of([](double n) { return 0.3 / n; }, samples)));
  CHECK_FALSE(fitter.undecided().empty());

  // Half of a size is the same however it is computed.
  CHECK(text_of(fitted([](double n) { return n / 2.0; })) == "multiply(float(n), 0.5)");
}

TEST_CASE("a formula that is offered is found where the search has none", "[ir][fit]") {
  const RealExpr n(Expr::symbol("n"));
  const auto line = [](double x) { return x * 0.3 + 1.5; };

  CHECK(text_of(fitted(line, {n * 0.1, n * 0.3 + 1.5})) == "add(multiply(float(n), 0.3), 1.5)");
  CHECK_FALSE(fitted(line, {n * 0.3 + 1.25}));
}

TEST_CASE("few samples, and numbers that do not vary, prove nothing", "[ir][fit]") {
  ExprFitter few({{{"n", 3}}, {{"n", 5}}, {{"n", 8}}});

  CHECK_FALSE(few.fit(std::vector<double>{1.0 / 3, 1.0 / 5, 1.0 / 8}));
  CHECK(text_of(few.fit(std::vector<double>{0.5, 0.5, 0.5})) == "0.5");
  CHECK_FALSE(few.fit(std::vector<double>{0.0, -0.0, 0.0}));
}

}  // namespace
}  // namespace kiln::ir
