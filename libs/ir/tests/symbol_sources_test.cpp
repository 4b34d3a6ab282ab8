#include "kiln/ir/symbol_sources.hpp"

#include "kiln/base/error.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

TEST_CASE("symbols are read from the inputs that fix them", "[ir][symbols]") {
  const Graph graph = parse(R"(graph g {
    symbol %s0 in [2, 64]
    symbol %s1 in [2, 64]
    input %x: f32[2*s0 + 1, s1] user
    input %n: int(s0) user
    output %x user
  })");

  const std::vector<SymbolSource> sources = find_symbol_sources(graph);

  REQUIRE(sources.size() == 2);
  CHECK(sources[0].symbol == "s0");
  CHECK(sources[0].input == 1);
  CHECK(sources[0].dimension == -1);
  CHECK(sources[1].input == 0);
  CHECK(sources[1].dimension == 1);
}

TEST_CASE("a symbol that no input determines is refused", "[ir][symbols]") {
  const Graph graph = parse(R"(graph g {
    symbol %s0 in [2, 64]
    input %x: f32[s0*s0] user
    output %x user
  })");

  CHECK_THROWS_AS(find_symbol_sources(graph), Error);
}

TEST_CASE("lines in one symbol are told from other expressions", "[ir][symbols]") {
  const std::optional<LinearForm> line = linear_form(Expr::parse("3*n - 2"));

  REQUIRE(line);
  CHECK(line->symbol == "n");
  CHECK(line->scale == 3);
  CHECK(line->shift == -2);
  for (const char* other : {"5", "n*n", "n + m", "n//2", "Max(1, n)"}) {
    CHECK_FALSE(linear_form(Expr::parse(other)));
  }
}

}  // namespace
}  // namespace kiln::ir
