// Attention as a kernel: a tile of queries at a time, with all of their scores.
//
// A task is a head, or a group of its queries. The task packs its keys and values in panels. It
// then multiplies a tile of queries by the keys, exponentiates the scores, multiplies them by the
// values, and divides by their sums. The source does not depend on the shape.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "kiln/codegen/target.hpp"
#include "kiln/ir/uses.hpp"
#include "loop/loop_program.hpp"
#include "loop/strided_view.hpp"

namespace kiln::codegen {

/// What attention computes and where its operands lie, in elements.
struct AttentionLayout {
  /// From one batch, head and row to the next.
  using Steps = std::array<ir::Expr, 3>;

  ir::Expr batches = 0;
  ir::Expr heads = 0;
  ir::Expr queries = 0;
  ir::Expr keys = 0;
  std::int64_t depth = 0;    ///< Of a query and a key.
  std::int64_t columns = 0;  ///< Of a value.
  Steps query = {};
  Steps key = {};
  Steps value = {};
  Steps mask = {};
  Steps result = {};
  Steps logsumexp = {};
  bool has_mask = false;
  bool saves_logsumexp = false;  ///< Whether something reads it, such as a backward.
  bool is_causal = false;
  float scale = 1;
};

/// Attention in a program.
struct Attention {
  /// Queries, keys, values, the mask if there is one, the result, the logsumexp if it is saved.
  std::vector<StridedView> operands;
  AttentionLayout layout;
};

/// `node`, which was not lowered, as attention that a kernel of `target` computes; nothing if it is
/// another operator, or one that libtorch computes faster.
[[nodiscard]] std::optional<Attention> match_attention(const ir::Graph& graph,
                                                       const ir::Uses& uses,
                                                       const LoopProgram& program,
                                                       const ir::Node& node,
                                                       const Target& target);

/// The call for `layout`, which takes the operands.
[[nodiscard]] LibraryCall plan_attention(const AttentionLayout& layout, const Target& target);

/// The source of a kernel for attention, by the constants of its call.
[[nodiscard]] std::string attention_source(std::span<const std::int64_t> constants,
                                           const Target& target);

/// The constants of every call that `plan_attention` may make.
[[nodiscard]] std::vector<std::vector<std::int64_t>> attention_constants(const Target& target);

/// Whether `target` has a kernel for attention.
[[nodiscard]] bool has_attention(const Target& target);

/// With fewer queries, packing keys and values does not pay off.
inline constexpr std::int64_t kMinQueries = 4;
/// A thread keeps the scores of a tile, and its queries, on the stack.
inline constexpr std::int64_t kMaxKeys = 2048;
inline constexpr std::int64_t kMaxDepth = 256;

}  // namespace kiln::codegen
