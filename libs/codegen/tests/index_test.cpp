#include "loop/index.hpp"

#include <vector>

#include "kiln/testing/catch2.hpp"

namespace kiln::codegen {
namespace {

using ir::Expr;

const Index i = Index::variable(0);
const Index j = Index::variable(1);

TEST_CASE("a quotient of what fits disappears", "[codegen][index]") {
  const std::vector<Expr> extents{6, 16};

  CHECK(floor_div(i * 16 + j, 16, extents) == i);
  CHECK(mod(i * 16 + j, 16, extents) == j);
  CHECK(floor_div(i * 16 + j, 48, extents) == floor_div(i, 3, extents));
  CHECK(mod(i * 16 + j, 48, extents) == mod(i, 3, extents) * 16 + j);
}

TEST_CASE("what does not fit stays divided", "[codegen][index]") {
  const std::vector<Expr> extents{6, 17};

  CHECK_FALSE(floor_div(i * 16 + j, 16, extents) == i);
  CHECK_FALSE(floor_div(i * 16 + j, 16, extents).factor_of(1).has_value());
}

TEST_CASE("what counts down below zero is divided without becoming negative", "[codegen][index]") {
  const std::vector<Expr> extents{30};
  const Index down = Index(24) + i * -1;

  CHECK(floor_div(down, 5, extents) == Index(4) + i * -1 + floor_div(i * 4 + Index(4), 5, extents));
  CHECK(mod(down, 5, extents) == mod(i * 4 + Index(4), 5, extents));
}

TEST_CASE("what counts down by a size, or is divided by one, does not become negative either",
          "[codegen][index]") {
  const Expr n = Expr::symbol("n");
  const std::vector<Expr> extents{n * 7 + 5};
  const Index by_size = Index(n * 7) + i * (n * -1);
  const Index down = Index(n * 7) + i * -1;

  CHECK(floor_div(down, n, extents) == Index(7) + i * -1 + floor_div(i * (n - 1), n, extents));
  CHECK(mod(down, n, extents) == mod(i * (n - 1), n, extents));
  CHECK(mod(by_size, 5, extents) ==
        mod(i * (n * 4) + Index(n * 7 - floor_div(n * 7, 5) * 5), 5, extents));
}

TEST_CASE("what counts down to zero is divided as it is", "[codegen][index]") {
  const Expr n = Expr::symbol("n");
  const auto [count, divisor] = GENERATE_COPY(table<Expr, Expr>({{25, 5}, {n * 6, n}, {n * 6, 4}}));
  const std::vector<Expr> extents{count};
  const Index down = Index(count - 1) + i * -1;
  const Index quotient = floor_div(down, divisor, extents);

  REQUIRE(quotient.terms().size() == 1);
  CHECK(quotient.terms()[0].factor == Expr(1));
  CHECK(quotient.terms()[0].atom->operand == down);
  CHECK(floor_div(down + j * divisor, divisor, std::vector<Expr>{count, 9}) == quotient + j);
}

TEST_CASE("a quotient and its remainder join again", "[codegen][index]") {
  const std::vector<Expr> extents{60};
  const std::vector<Expr> sizes{3, 4, 5};

  CHECK(linearize(delinearize(i, sizes, extents), sizes) == i);
}

TEST_CASE("remainders of one division join in the remainder of a larger one", "[codegen][index]") {
  const std::vector<Expr> extents{60};
  const std::vector<Expr> sizes{3, 4, 5};
  const std::vector<Index> places = delinearize(i, sizes, extents);

  CHECK(places[1] * 5 + places[2] == mod(i, 20, extents));
  CHECK_FALSE(places[1] * 4 + places[2] == mod(i, 20, extents));
}

TEST_CASE("symbolic sizes simplify as numbers do", "[codegen][index]") {
  const Expr n = Expr::symbol("s0");
  const std::vector<Expr> extents{6, n};

  CHECK(floor_div(i * n + j, n, extents) == i);
  CHECK(mod(i * n + j, n, extents) == j);
}

TEST_CASE("a box with nothing in it has no places", "[codegen][index]") {
  const std::vector<Expr> extents{Expr(0)};
  const std::vector<Expr> sizes{Expr(3), Expr(0)};

  CHECK(delinearize(i, sizes, extents) == std::vector<Index>(2));
}

}  // namespace
}  // namespace kiln::codegen
