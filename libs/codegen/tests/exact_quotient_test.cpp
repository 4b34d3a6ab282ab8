#include "schedule/exact_quotient.hpp"

#include "kiln/testing/catch2.hpp"

namespace kiln::codegen {
namespace {

using ir::Expr;

const Expr kBatch = Expr::symbol("batch");

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
