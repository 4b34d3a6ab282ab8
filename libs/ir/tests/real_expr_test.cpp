#include "kiln/ir/real_expr.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/ir/canonical.hpp"
#include "kiln/ir/json.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/specialize.hpp"
#include "kiln/ir/verify.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

RealExpr n() {
  return RealExpr(Expr::symbol("n"));
}

std::string program(const std::string& number) {
  return "graph g {\n  symbol %n in [1, 64]\n  input %x: f32[n] user\n  %a: f32[n] = "
         "aten.mul.Scalar(%x, " +
         number + ")\n  output %a user\n}\n";
}

TEST_CASE("a real expression is computed in the order in which it is written", "[ir][real_expr]") {
  const RealExpr scaled = n() * 0.1 * 3.0, other = n() * (RealExpr(0.1) * 3.0);

  CHECK(scaled.evaluate({{"n", 7}}) == 7 * 0.1 * 3.0);
  CHECK(other.evaluate({{"n", 7}}) == 7 * (0.1 * 3.0));
  CHECK(scaled.evaluate({{"n", 7}}) != other.evaluate({{"n", 7}}));
  CHECK((RealExpr(1.0) / sqrt(RealExpr(Expr::symbol("n") - 1))).evaluate({{"n", 6}}) ==
        1.0 / std::sqrt(5.0));
  CHECK(round_to_float(n() * 0.1).evaluate({{"n", 3}}) ==
        static_cast<double>(static_cast<float>(3 * 0.1)));
  CHECK((n() + 0.5 - n() / 2.0).evaluate({{"n", 3}}) == 2.0);
  CHECK_THROWS_AS(n().evaluate({}), Error);
}

TEST_CASE("constants are folded, and a factor of one is none", "[ir][real_expr]") {
  CHECK((RealExpr(1.0) / 3.0).constant() == 1.0 / 3.0);
  CHECK(n() * 1.0 == n());
  CHECK(n() / 1.0 == n());
  CHECK(RealExpr(Expr(4)).constant() == 4.0);
  CHECK_FALSE(n().constant());
  CHECK((RealExpr(1.0) / n()).substitute([](const std::string&) { return Expr(8); }).constant() ==
        0.125);
  CHECK(RealExpr(0.0) != RealExpr(-0.0));
}

TEST_CASE("the text of a real expression reads back as the same", "[ir][real_expr]") {
  for (const char* text : {"divide(1.0, float(n))",
                           "sqrt(float(2*m*n + 1))",
                           "add(multiply(float(Max(1, (n//2))), 0.3), -1.5)",
                           "subtract(float(n), inf)",
                           "round_to_float(divide(0.10000000149011612, float(n)))"}) {
    const RealExpr read = RealExpr::parse(text);
    CHECK(read.to_string() == text);
    CHECK(RealExpr::parse(read.to_string()) == read);
    CHECK(RealExpr::parse(read.to_string()).hash() == read.hash());
    CHECK(RealExpr::is_text(text));
  }
  CHECK(RealExpr::parse("add(float(n), float(m))").symbols() == std::vector<std::string>{"m", "n"});
  CHECK_FALSE(RealExpr::is_text("Max(1, n)"));
  CHECK_FALSE(RealExpr::is_text("0.5"));
}

TEST_CASE("text that is no real expression is refused where it stops", "[ir][real_expr]") {
  for (const char* text :
       {"divide(1.0)", "sqrt(float(n)", "float()", "add(1.0, 2.0) 3", "divide(n, 1.0)"}) {
    CHECK_THROWS_AS(RealExpr::parse(text), Error);
  }
  CHECK_THROWS_WITH(RealExpr::parse("sqrt(x)"), testing::contains("column 6"));
}

TEST_CASE("graphs keep numbers that depend on sizes", "[ir][real_expr]") {
  const std::string text = program("divide(1.0, float(n - 1))");
  const Graph graph = parse(text);

  CHECK(print(graph) == text);
  CHECK(print(from_json(to_json(graph))) == text);
  CHECK(canonical_bytes(graph) != canonical_bytes(parse(program("divide(2.0, float(n - 1))"))));
  CHECK(print(specialize(graph, {{"n", 5}})).find("Scalar(%x, 0.25)") != std::string::npos);
  CHECK_THROWS_WITH(parse(program("divide(1.0, n)")), testing::contains("line 4"));
}

TEST_CASE("a number that depends on no size is a plain one", "[ir][real_expr]") {
  CHECK(print(parse(program("divide(1.0, float(4))"))) == print(parse(program("0.25"))));

  Graph graph = parse(program("divide(1.0, float(n))"));
  graph.node(NodeId(0)).arguments[1] = RealExpr(0.25);
  CHECK_THROWS_WITH(verify(graph), testing::contains("rule 9"));
}

}  // namespace
}  // namespace kiln::ir
