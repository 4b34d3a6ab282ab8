#include "loop/typical_size.hpp"

#include "kiln/testing/catch2.hpp"
#include "schedule/exact_quotient.hpp"

namespace kiln::codegen {
namespace {

using ir::Expr;

const Expr kBatch = Expr::symbol("batch");

TEST_CASE("sizes that vary have a usual value of at least one", "[codegen][sizes]") {
  CHECK(typical_size(0) == 0);
  CHECK(typical_size(300) == 300);
  CHECK(typical_size(kBatch) > 1);
  CHECK(typical_size(kBatch * Expr(3) + Expr(1)) == 3 * typical_size(kBatch) + 1);
  CHECK(typical_size(kBatch - Expr(typical_size(kBatch))) == 1);
  CHECK(typical_size(kBatch - Expr(1000)) == 1);
  CHECK(typical_size(floor_div(12, kBatch - Expr(typical_size(kBatch)))) > 1);
}

TEST_CASE("extents are divided where that leaves nothing at any size", "[codegen][sizes]") {
  CHECK(exact_quotient(kBatch * Expr(32), 32) == kBatch);
  CHECK(exact_quotient(kBatch * Expr(32), kBatch) == Expr(32));
  CHECK(exact_quotient(96, 32) == Expr(3));
  CHECK_FALSE(exact_quotient(97, 32));
  CHECK_FALSE(exact_quotient(kBatch, 32));
  CHECK_FALSE(exact_quotient(Expr(32), kBatch));
}

}  // namespace
}  // namespace kiln::codegen
