// The kernel of attention by itself, against the definition in double.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/cpu/match/attention.hpp"
#include "kiln/testing/catch2.hpp"
#include "support/draws.hpp"
#include "support/kernel_instances.hpp"

namespace kiln::codegen {
namespace {

// Attention of any shape. Operands are [batch, head, row, element], with gaps between rows.
class DrawnAttention {
 public:
  explicit DrawnAttention(Draws& draws) {
    batches_ = draws.integer(1, 2);
    heads_ = draws.integer(1, 3);
    queries_ = draws.integer(4, 40);
    keys_ = draws.integer(1, 70);
    depth_ = 4 * draws.integer(1, 12);
    columns_ = draws.integer(1, 50);
    gap_ = draws.integer(0, 3);
    has_mask_ = draws.integer(0, 1) == 1;
    is_causal_ = !has_mask_ && draws.integer(0, 1) == 1;
    saves_ = draws.integer(0, 1) == 1;
    const std::int64_t all = batches_ * heads_;
    query_ = draws.floats(all * queries_ * (depth_ + gap_));
    key_ = draws.floats(all * keys_ * (depth_ + gap_));
    value_ = draws.floats(all * keys_ * (columns_ + gap_));
    mask_ = draws.floats(all * queries_ * keys_);
    if (has_mask_ && draws.integer(0, 1) == 1) {  // One key that nobody sees.
      for (std::int64_t row = 0; row < all * queries_; ++row) {
        mask_[static_cast<std::size_t>(row * keys_)] = -INFINITY;
      }
    }
  }

  [[nodiscard]] AttentionLayout layout() const {
    const auto steps = [&](std::int64_t rows, std::int64_t row) {
      return AttentionLayout::Steps{heads_ * rows * row, rows * row, row};
    };
    AttentionLayout layout{
        .batches = batches_, .heads = heads_, .queries = queries_, .keys = keys_};
    layout.depth = depth_;
    layout.columns = columns_;
    layout.query = steps(queries_, depth_ + gap_);
    layout.key = steps(keys_, depth_ + gap_);
    layout.value = steps(keys_, columns_ + gap_);
    layout.mask = steps(queries_, keys_);
    layout.result = steps(queries_, columns_ + gap_);
    layout.logsumexp = steps(queries_, 1);
    layout.has_mask = has_mask_;
    layout.saves_logsumexp = saves_;
    layout.is_causal = is_causal_;
    layout.scale = kScale;
    return layout;
  }

  // The largest difference to the definition; infinity if anything else was written.
  [[nodiscard]] double error_of(HandWrittenKernel kernel, const Target& target) {
    constexpr float kUntouched = 1234.5F;
    const LibraryCall call = plan_attention(layout(), target);
    std::vector<long long> params;
    for (const ir::Expr& parameter : call.parameters) {
      params.push_back(*parameter.constant());
    }
    const std::int64_t rows = batches_ * heads_ * queries_, row = columns_ + gap_;
    std::vector<float> result(static_cast<std::size_t>(rows * row + 64), kUntouched);
    std::vector<float> logsumexp(static_cast<std::size_t>(rows));
    std::vector<float> workspace(static_cast<std::size_t>(*call.scratch.constant()));
    std::vector<void*> buffers{query_.data(), key_.data(), value_.data()};
    if (has_mask_) {
      buffers.push_back(mask_.data());
    }
    buffers.push_back(result.data());
    if (saves_) {
      buffers.push_back(logsumexp.data());
    }
    buffers.push_back(workspace.data());
    kernel(buffers.data(), params.data());
    double worst = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::vector<double> expected = row_of(r);
      for (std::int64_t c = 0; c < row; ++c) {
        const double found = result[static_cast<std::size_t>(r * row + c)];
        worst = std::max(worst,
                         c < columns_ ? std::fabs(found - expected[static_cast<std::size_t>(c)])
                         : found == kUntouched ? 0.0
                                               : INFINITY);
      }
      if (saves_) {
        worst =
            std::max(worst, std::fabs(logsumexp[static_cast<std::size_t>(r)] - expected.back()));
      }
    }
    return worst;
  }

 private:
  static constexpr float kScale = 0.3F;

  // A row of the result, and the logarithm of its sum.
  [[nodiscard]] std::vector<double> row_of(std::int64_t row) const {
    const std::int64_t head = row / queries_, query = row % queries_;
    std::vector<double> weights(static_cast<std::size_t>(keys_));
    double sum = 0;
    for (std::int64_t k = 0; k < keys_; ++k) {
      double score = 0;
      for (std::int64_t i = 0; i < depth_; ++i) {
        score += static_cast<double>(query_[static_cast<std::size_t>(row * (depth_ + gap_) + i)]) *
                 key_[static_cast<std::size_t>((head * keys_ + k) * (depth_ + gap_) + i)];
      }
      score *= kScale;
      score += has_mask_ ? mask_[static_cast<std::size_t>(row * keys_ + k)] : 0.0F;
      const bool is_visible = !is_causal_ || k <= query;
      weights[static_cast<std::size_t>(k)] = is_visible ? std::exp(score) : 0;
      sum += weights[static_cast<std::size_t>(k)];
    }
    std::vector<double> result(static_cast<std::size_t>(columns_));
    for (std::int64_t c = 0; c < columns_; ++c) {
      for (std::int64_t k = 0; k < keys_; ++k) {
        const double value =
            value_[static_cast<std::size_t>((head * keys_ + k) * (columns_ + gap_) + c)];
        result[static_cast<std::size_t>(c)] +=
            sum == 0 ? 0 : weights[static_cast<std::size_t>(k)] / sum * value;
      }
    }
    result.push_back(sum == 0 ? 0 : std::log(sum));
    return result;
  }

  std::int64_t batches_ = 0, heads_ = 0, queries_ = 0, keys_ = 0, depth_ = 0, columns_ = 0,
               gap_ = 0;
  bool has_mask_ = false, is_causal_ = false, saves_ = false;
  std::vector<float> query_, key_, value_, mask_;
};

TEST_CASE("one kernel attends to keys of every number", "[codegen][attention]") {
  for (const bool is_long : {false, true}) {
    const Target target = {.vector_bytes = is_long ? 64 : 16, .panel_width = is_long ? 32 : 8};
    Draws draws;
    for (int i = 0; i < 200; ++i) {
      DrawnAttention attention(draws);
      CAPTURE(is_long, i);
      CHECK(attention.error_of(is_long ? attention_16 : attention_4, target) < 2e-5);
    }
  }
}

}  // namespace
}  // namespace kiln::codegen
