#include "backend/cpu/match/packed_gemm.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kiln/codegen/target.hpp"
#include "kiln/testing/catch2.hpp"
#include "support/draws.hpp"
#include "support/kernel_instances.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

// A product of any shape whose operands lie in any of the ways that there are. Its rows, depth and
// batches are numbers, or known when it is called.
class DrawnProduct {
 public:
  DrawnProduct(Draws& draws, std::int64_t width, bool reads_rows) {
    const auto number = [&](std::int64_t least, std::int64_t most) {
      return draws.integer(least, most);
    };
    const bool in_panels = number(0, 1) == 1;
    const bool lhs_transposed = number(0, 3) == 0;
    const bool rhs_transposed = number(0, 1) == 1;
    layout_.width = width;
    sizes_["b"] = in_panels ? 1 : number(1, 3);
    sizes_["m"] = number(0, 19) == 0 ? number(1000, 4000) : number(1, 40);
    sizes_["k"] = number(0, 9) == 0 ? number(1025, 2100) : number(1, 70);
    const bool varies = number(0, 1) == 1;
    if (varies && number(0, 9) == 0) {
      sizes_[number(0, 1) == 0 ? "m" : "k"] = 0;
    }
    const std::int64_t batches = sizes_["b"], rows = sizes_["m"], depth = sizes_["k"];
    layout_.batches = varies && !in_panels ? Expr::symbol("b") : batches;
    layout_.m = varies ? Expr::symbol("m") : rows;
    layout_.k = varies && (depth == 0 || number(0, 1) == 1) ? Expr::symbol("k") : Expr(depth);
    layout_.panels = in_panels ? number(1, 5) : number(0, 5);
    layout_.tail = in_panels ? 0 : number(layout_.panels == 0 ? 1 : 0, width - 1);
    columns_ = layout_.panels * width + layout_.tail;
    layout_.lhs_row = lhs_transposed ? Expr(1) : layout_.k + Expr(number(0, 3));
    layout_.lhs_k = lhs_transposed ? rows : 1;
    layout_.lhs_batch = layout_.batches == Expr(1) ? 0 : layout_.m * (layout_.k + Expr(3));
    layout_.packs_lhs = !reads_rows || number(0, 1) == 1 ? 1 : 0;
    layout_.packs_rhs = !in_panels;
    layout_.rhs_n = rhs_transposed ? layout_.k : Expr(1);
    layout_.rhs_k = rhs_transposed ? 1 : columns_;
    layout_.rhs_batch = in_panels ? Expr(0) : layout_.k * Expr(columns_);
    layout_.adds = number(0, 1) == 1;
    layout_.added_row = number(0, 1) * columns_;
    layout_.added_batch = Expr(layout_.added_row) * layout_.m;
    layout_.result_row = columns_ + number(0, 5);
    layout_.result_batch = Expr(layout_.result_row) * layout_.m;
    left_ = draws.floats(batches * rows * (depth + 3));
    right_ = draws.floats(batches * depth * columns_);
    added_ = draws.floats(batches * rows * columns_);
  }

  // The largest difference to the same in double, and infinity if it wrote beside the result.
  [[nodiscard]] double error_of(HandWrittenKernel kernel, const Target& target) {
    constexpr float kUntouched = 1234.5F;
    const LibraryCall call = plan_packed_gemm(layout_, target);
    std::vector<long long> sizes;
    for (const Expr& parameter : call.parameters) {
      sizes.push_back(value(parameter));
    }
    const std::int64_t result_batch = std::max<std::int64_t>(1, value(layout_.result_batch));
    std::vector<float> result(value(layout_.batches) * value(layout_.result_batch) + 64,
                              kUntouched);
    std::vector<float> room(value(call.scratch));
    std::vector<void*> buffers{left_.data(), right_.data()};
    if (layout_.adds) {
      buffers.push_back(added_.data());
    }
    buffers.push_back(result.data());
    buffers.push_back(room.data());
    kernel(buffers.data(), sizes.data());
    const bool is_empty = value(layout_.m) == 0;
    double worst = 0;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(result.size()); ++i) {
      const std::int64_t batch = i / result_batch;
      const std::int64_t row = i % result_batch / layout_.result_row;
      const std::int64_t column = i % result_batch % layout_.result_row;
      const bool beside = batch >= value(layout_.batches) || column >= columns_ || is_empty;
      const double expected = beside ? kUntouched : element(batch, row, column);
      const double error = std::fabs(expected - result[i]);
      worst = std::max(worst, beside && error > 0 ? INFINITY : error);
    }
    return worst;
  }

  [[nodiscard]] const GemmLayout& layout() const { return layout_; }
  [[nodiscard]] std::int64_t value(const Expr& size) const { return size.evaluate(sizes_); }

 private:
  [[nodiscard]] double element(std::int64_t batch, std::int64_t row, std::int64_t column) const {
    const GemmLayout& at = layout_;
    const std::int64_t left_begin = batch * value(at.lhs_batch);
    const std::int64_t right_begin = batch * value(at.rhs_batch);
    double sum = at.adds ? added_[batch * value(at.added_batch) + row * at.added_row + column] : 0;
    const std::int64_t depth = value(at.k), rhs_k = value(at.rhs_k), rhs_n = value(at.rhs_n);
    const std::int64_t lhs_row = value(at.lhs_row), lhs_k = value(at.lhs_k);
    for (std::int64_t k = 0; k < depth; ++k) {
      const std::int64_t packed = (column / at.width * depth + k) * at.width + column % at.width;
      const double right = right_[at.packs_rhs ? right_begin + k * rhs_k + column * rhs_n : packed];
      sum += left_[left_begin + row * lhs_row + k * lhs_k] * right;
    }
    return sum;
  }

  GemmLayout layout_;
  ir::Bindings sizes_;
  std::int64_t columns_ = 0;
  std::vector<float> left_, right_, added_;
};

TEST_CASE("one kernel multiplies matrices of every shape", "[codegen][product]") {
  for (const bool is_long : {false, true}) {
    const Target target = {.vector_bytes = is_long ? 64 : 16, .panel_width = is_long ? 32 : 8};
    Draws draws;
    for (int i = 0; i < 300; ++i) {
      DrawnProduct product(draws, target.panel_width, is_long);
      const GemmLayout& at = product.layout();
      CAPTURE(target.panel_width, i, product.value(at.batches), product.value(at.m), at.panels);
      CAPTURE(product.value(at.k), product.value(at.lhs_k), product.value(at.rhs_k));
      CAPTURE(at.m.is_constant(), at.k.is_constant(), at.tail, at.packs_rhs, at.adds);
      CHECK(product.error_of(is_long ? packed_gemm_16 : packed_gemm_4, target) < 5e-4);
    }
  }
}

}  // namespace
}  // namespace kiln::codegen
