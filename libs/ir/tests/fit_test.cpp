#include "kiln/ir/fit.hpp"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

std::vector<Bindings> samples_of(const std::vector<std::vector<std::int64_t>>& sizes) {
  std::vector<Bindings> samples;
  for (const std::vector<std::int64_t>& one : sizes) {
    Bindings sample;
    for (std::size_t i = 0; i < one.size(); ++i) {
      sample["s" + std::to_string(i)] = one[i];
    }
    samples.push_back(sample);
  }
  return samples;
}

std::vector<Bindings> one_symbol() {
  return samples_of({{5}, {7}, {12}, {16}, {23}, {64}, {91}, {200}});
}

std::vector<Bindings> two_symbols() {
  return samples_of({{5, 64}, {7, 13}, {12, 31}, {16, 6}, {23, 8}, {64, 19}, {91, 40}, {200, 27}});
}

std::string fitted(ExprFitter& fitter, const char* text) {
  const std::optional<Expr> found = fitter.fit(fitter.values_of(Expr::parse(text)));
  return found ? found->to_string() : "nothing";
}

TEST_CASE("expressions are found by their values", "[ir][fit]") {
  ExprFitter fitter(two_symbols());

  for (const char* text : {"7",
                           "-3",
                           "s0",
                           "s1 + 1",
                           "2*s0 - 5",
                           "s0*s1",
                           "768*s0*s1",
                           "s0*s0*s1 + 4",
                           "s0 + s1",
                           "s0 + 2*s1 + 1",
                           "s0*s1 + s0 - 7*s1"}) {
    CHECK(fitted(fitter, text) == Expr::parse(text).to_string());
  }
}

TEST_CASE("what no simple expression gives is not found", "[ir][fit]") {
  ExprFitter fitter(one_symbol());

  CHECK(fitted(fitter, "Min(s0, 100)") == "nothing");
  CHECK(fitted(fitter, "Mod(s0, 2)") == "nothing");
  CHECK(fitted(fitter, "s0//3") == "nothing");
  const std::vector<std::int64_t> drawn = {3, 1, 4, 1, 5, 9, 2, 6};
  CHECK_FALSE(fitter.fit(drawn));
}

TEST_CASE("expressions on offer are found, alone and as factors", "[ir][fit]") {
  ExprFitter fitter(two_symbols());
  fitter.offer(Expr::parse("(s0 - 1)//32 + 1"));
  fitter.offer(Expr::parse("(s1 - 1)//32 + 1"));

  CHECK(fitted(fitter, "(s0 - 1)//32 + 1") == Expr::parse("(s0 - 1)//32 + 1").to_string());
  const Expr product = Expr::parse("512*((s0 - 1)//32 + 1)*((s1 - 1)//32 + 1)");
  CHECK(fitter.fit(fitter.values_of(product)) == product);
}

TEST_CASE("an offer makes a number known that was not", "[ir][fit]") {
  ExprFitter fitter(one_symbol());
  REQUIRE(fitted(fitter, "s0//3") == "nothing");

  fitter.offer(Expr::parse("s0//3"));

  CHECK(fitted(fitter, "s0//3") == Expr::parse("s0//3").to_string());
}

TEST_CASE("values at samples that do not matter may be any", "[ir][fit]") {
  ExprFitter fitter(one_symbol());
  std::vector<std::int64_t> values = fitter.values_of(Expr::parse("4*s0"));
  std::vector<bool> matters(values.size(), true);
  values[2] = -1;
  REQUIRE_FALSE(fitter.fit(values));

  matters[2] = false;

  CHECK(fitter.fit(values, matters) == Expr::parse("4*s0"));
}

TEST_CASE("too few samples determine nothing", "[ir][fit]") {
  // A line goes through any two points, and three confirm it: two of these five are not enough for
  // three terms.
  ExprFitter fitter(samples_of({{5}, {7}, {12}, {16}, {23}}));

  CHECK(fitted(fitter, "3*s0 + 1") == "3*s0 + 1");
  CHECK(fitted(fitter, "s0*s0 + s0") == "nothing");
}

TEST_CASE("a fitted expression has the values it was fitted to", "[ir][fit]") {
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<std::int64_t>> sizes;
    for (int i = 0; i < 10; ++i) {
      sizes.push_back({draw(2, 500), draw(2, 500)});
    }
    ExprFitter fitter(samples_of(sizes));
    const Expr expr = Expr(draw(-9, 9)) * Expr::symbol("s0") * Expr::symbol("s1") +
                      Expr(draw(-9, 9)) * Expr::symbol("s1") + Expr(draw(-9, 9));

    const std::optional<Expr> found = fitter.fit(fitter.values_of(expr));

    REQUIRE(found);
    CHECK(*found == expr);
  }
}

}  // namespace
}  // namespace kiln::ir
