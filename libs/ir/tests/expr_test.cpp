#include "kiln/ir/expr.hpp"

#include <cstdint>
#include <limits>
#include <random>

#include "kiln/base/error.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

const Expr s0 = Expr::symbol("s0");
const Expr s1 = Expr::symbol("s1");
const Expr s2 = Expr::symbol("s2");

TEST_CASE("equal polynomials are equal however they were built", "[ir][expr]") {
  CHECK((s0 + 1) * (s0 - 1) == s0 * s0 - 1);
  CHECK(s0 * s1 + s1 * s0 == Expr(2) * s1 * s0);
  CHECK((s0 - s0).constant() == 0);
  CHECK(s0 + s1 != s0 - s1);
  CHECK(((s0 + 1) * 3).hash() == (Expr(3) + s0 + s0 + s0).hash());
}

TEST_CASE("sums that differ in a later term are different", "[ir][expr]") {
  CHECK_FALSE((floor_div(s0 + s1, 2) - floor_div(s0 + s2, 2)).is_constant());
  CHECK(max(s0 + s1, s0 + s2) == max(s0 + s2, s0 + s1));
}

TEST_CASE("divisions take multiples out", "[ir][expr]") {
  CHECK(floor_div(s0 * 8 + 3, 8) == s0);
  CHECK(floor_div(s0 * 4 + 8, 8) == floor_div(s0, 2) + 1);
  CHECK(floor_div(floor_div(s0, 2), 3) == floor_div(s0, 6));
  CHECK(floor_div(s0 * s1, s1) == s0);
  CHECK(floor_div(s0 * s1 + s1, s0 + 1) == s1);
  CHECK(ceil_div(s0, 8) == floor_div(s0 + 7, 8));
  CHECK(mod(s0 * 8 + 3, 8).constant() == 3);
  CHECK(mod(s0 * 6, 4) == mod(s0, 2) * 2);
  CHECK(mod(s0 * 2 + 1, 4) == mod(s0, 2) * 2 + 1);
  CHECK(mod(mod(s0, 8), 4) == mod(s0, 4));
  CHECK(mod(mod(s0, 4), 8) == mod(s0, 4));
  CHECK(mod(s0 * s1, s0).constant() == 0);
}

TEST_CASE("an expression is a multiple where its form shows it", "[ir][expr]") {
  CHECK(divides(4, Expr(12)));
  CHECK(divides(4, Expr(0)));
  CHECK_FALSE(divides(4, Expr(10)));
  CHECK(divides(4, s0 * 8 + s1 * 12 - 4));
  CHECK(divides(4, s0 * s1 * 4));
  CHECK_FALSE(divides(4, s0 * 4 + 2));
  CHECK_FALSE(divides(4, s0));
  CHECK_FALSE(divides(4, s0 * 2));
  CHECK(divides(1, s0));
}

TEST_CASE("minimum and maximum are decided where the difference is known", "[ir][expr]") {
  CHECK(max(s0, s0 + 1) == s0 + 1);
  CHECK(min(s0, s0 + 1) == s0);
  CHECK(max(max(s0, s1), s0) == max(s1, s0));
  CHECK(max(max(s0, 3), 5) == max(s0, 5));
  CHECK(max(Expr(3), 4).constant() == 4);
}

TEST_CASE("expressions read back from their text", "[ir][expr]") {
  for (const char* text : {"0",
                           "-7",
                           "s0",
                           "-s0",
                           "2*s0 + 1",
                           "s0*s1 - 3*s1",
                           "Max(1, s0)",
                           "(s0//8)",
                           "Mod(s0, 8)",
                           "Min(s0, s1) + 2",
                           "((s0 + 1)//(s1 + 2))",
                           "3*(s0//2)*s1 - 4",
                           "-9223372036854775808",
                           "9223372036854775807"}) {
    const Expr expr = Expr::parse(text);
    CHECK(Expr::parse(expr.to_string()) == expr);
  }
  CHECK((s0 * 2 + 1).to_string() == "2*s0 + 1");
  CHECK(floor_div(s0, 8).to_string() == "(s0//8)");
}

TEST_CASE("sympy's spelling is understood", "[ir][expr]") {
  CHECK(Expr::parse("s0**2") == s0 * s0);
  CHECK(Expr::parse("-2**2").constant() == -4);
  CHECK(Expr::parse("FloorDiv(s0, 2)") == floor_div(s0, 2));
  CHECK(Expr::parse("CeilDiv(s0, 8)") == ceil_div(s0, 8));
  CHECK(Expr::parse("s0 % 4") == mod(s0, 4));
  CHECK(Expr::parse("Max(1, s0, 2)") == max(s0, 2));
  CHECK(Expr::parse("-(s0 + 1)") == Expr(-1) - s0);
}

TEST_CASE("a symbol has letters of both cases, digits and underscores", "[ir][expr]") {
  for (const char* name : {"A", "Z", "a", "z", "_", "AZaz_09"}) {
    CHECK(Expr::parse(name) == Expr::symbol(name));
  }
}

TEST_CASE("wrong text names the column", "[ir][expr]") {
  for (const char* text : {"",
                           "s0 +",
                           "(s0",
                           "s0)",
                           "2 3",
                           "Foo(s0)",
                           "Foo(s0, 2)",
                           "Mod(s0)",
                           "s0**s1",
                           "9223372036854775808",
                           "1//0",
                           "Mod(s0, 0)"}) {
    CHECK_THROWS_AS(Expr::parse(text), Error);
  }
  CHECK_THROWS_WITH(Expr::parse("s0 + *"), testing::contains("column 6"));
  CHECK_THROWS_AS(Expr::parse(std::string(10000, '(')), Error);
}

TEST_CASE("bounds hold, and are infinite where they must be", "[ir][expr]") {
  const Ranges ranges = {{"s0", {2, 10}}, {"s1", {0, INT64_MAX}}};
  CHECK((s0 * 2 - 1).bounds(ranges) == Range{3, 19});
  CHECK((s0 * s1).bounds(ranges) == Range{0, INT64_MAX});
  CHECK((s1 - 5).bounds(ranges) == Range{-5, INT64_MAX});
  CHECK(mod(s0, 8).bounds(ranges) == Range{0, 7});
  CHECK(floor_div(s0, 4).bounds(ranges) == Range{0, 2});
  CHECK(max(s0, 5).bounds(ranges) == Range{5, 10});
  CHECK(Expr::symbol("unknown").bounds(ranges) == Range{INT64_MIN, INT64_MAX});
  // Nothing, so often as one likes, is nothing.
  CHECK((Expr::symbol("none") * s1).bounds({{"none", {0, 0}}, {"s1", {1, INT64_MAX}}}) ==
        Range{0, 0});
}

TEST_CASE("overflow and unbound symbols are errors", "[ir][expr]") {
  CHECK_THROWS_AS(Expr(INT64_MAX) + 1, Error);
  CHECK_THROWS_AS(s0 * INT64_MAX * 2, Error);
  CHECK_THROWS_WITH((s0 + s1).evaluate({{"s0", 1}}), testing::contains("s1"));
  CHECK((s0 + s1).symbols() == std::vector<std::string>{"s0", "s1"});
}

/// A random expression and its value, computed without simplification.
struct Sample {
  Expr expr;
  std::int64_t value;
};

std::int64_t floor_of(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return q * b != a && ((a < 0) != (b < 0)) ? q - 1 : q;
}

Sample random_expression(std::mt19937& random, const Bindings& bindings, int depth) {
  const auto pick = [&](int count) {
    return static_cast<int>(random() % static_cast<unsigned>(count));
  };
  if (depth == 0 || pick(5) == 0) {
    if (pick(2) == 0) {
      const std::int64_t constant = pick(13) - 6;
      return {Expr(constant), constant};
    }
    const std::string name = pick(2) == 0 ? "s0" : "s1";
    return {Expr::symbol(name), bindings.at(name)};
  }
  const Sample a = random_expression(random, bindings, depth - 1);
  Sample b = random_expression(random, bindings, depth - 1);
  const int operation = pick(8);
  if (operation >= 5 && b.value == 0) {
    return a;
  }
  if (operation >= 5 && b.expr.constant() == 0) {
    return a;
  }
  switch (operation) {
    case 0: return {a.expr + b.expr, a.value + b.value};
    case 1: return {a.expr - b.expr, a.value - b.value};
    case 2: return {a.expr * b.expr, a.value * b.value};
    case 3: return {min(a.expr, b.expr), std::min(a.value, b.value)};
    case 4: return {max(a.expr, b.expr), std::max(a.value, b.value)};
    case 5: return {floor_div(a.expr, b.expr), floor_of(a.value, b.value)};
    case 6: return {mod(a.expr, b.expr), a.value - floor_of(a.value, b.value) * b.value};
    default: return {ceil_div(a.expr, b.expr), -floor_of(-a.value, b.value)};
  }
}

TEST_CASE("simplification never changes a value, a bound or a text", "[ir][expr]") {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    const Bindings bindings = {{"s0", static_cast<std::int64_t>(random() % 30) + 1},
                               {"s1", static_cast<std::int64_t>(random() % 9) + 1}};
    const Sample sample = random_expression(random, bindings, 3);
    INFO(sample.expr.to_string() << " at s0=" << bindings.at("s0") << " s1=" << bindings.at("s1"));

    REQUIRE(sample.expr.evaluate(bindings) == sample.value);
    REQUIRE(Expr::parse(sample.expr.to_string()) == sample.expr);
    const Range range = sample.expr.bounds({{"s0", {1, 30}}, {"s1", {1, 9}}});
    REQUIRE(range.low <= sample.value);
    REQUIRE(range.high >= sample.value);
    const Expr substituted =
        sample.expr.substitute([&](const std::string& name) { return Expr(bindings.at(name)); });
    REQUIRE(substituted.constant() == sample.value);
  }
}

}  // namespace
}  // namespace kiln::ir
