#include "kiln/ir/size_hints.hpp"

#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

const Expr kBatch = Expr::symbol("batch");
const Expr kWords = Expr::symbol("words");

TEST_CASE("a size that varies counts as in the example, or else as usual, and lies in its range",
          "[ir][size_hints]") {
  const SizeHints hint(parse(R"(graph g {
  symbol %batch in [1, 512] hint 2
  symbol %words in [1, 4096]
  symbol %few in [2, 16]
  symbol %many in [100, 4096]
  symbol %past in [1, 8] hint 9
})"));

  CHECK(hint(0) == 0);
  CHECK(hint(300) == 300);
  CHECK(hint(kBatch) == 2);
  CHECK(hint(Expr(197) * kBatch + kWords) == 2 * 197 + SizeHints::kUsual);
  CHECK(hint(Expr::symbol("few")) == 16);
  CHECK(hint(Expr::symbol("many")) == 100);
  CHECK(hint(Expr::symbol("past")) == 8);
}

TEST_CASE("a size is at least what its range begins with", "[ir][size_hints]") {
  const SizeHints hint(parse(R"(graph g {
  symbol %batch in [8, 512] hint 64
})"));

  CHECK(hint.always_at_least(8, 8));
  CHECK_FALSE(hint.always_at_least(7, 8));
  CHECK(hint.always_at_least(kBatch * 2, 16));
  CHECK_FALSE(hint.always_at_least(kBatch, 64));
  CHECK_FALSE(hint.always_at_least(kWords, 1));
}

TEST_CASE("where a small example says little, sizes are as large as usual", "[ir][size_hints]") {
  const SizeHints hint(parse(R"(graph g {
  symbol %batch in [1, 512] hint 2
  symbol %words in [1, 4096] hint 300
  symbol %few in [2, 16] hint 2
})"));

  CHECK(hint.at_scale(3) == 3);
  CHECK(hint.at_scale(kBatch) == SizeHints::kUsual);
  CHECK(hint.at_scale(kWords) == 300);
  CHECK(hint.at_scale(Expr::symbol("few")) == 16);
}

TEST_CASE("what varies counts as at least one", "[ir][size_hints]") {
  const SizeHints hint;

  CHECK(hint(kBatch) == SizeHints::kUsual);
  CHECK(hint(kBatch - Expr(SizeHints::kUsual)) == 1);
  CHECK(hint(kBatch - Expr(1000)) == 1);
  CHECK(hint(floor_div(12, kBatch - Expr(SizeHints::kUsual))) > 1);
}

}  // namespace
}  // namespace kiln::ir
