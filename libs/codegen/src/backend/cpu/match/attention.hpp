// Attention as a kernel: some rows of queries at a time, with all of their scores.
//
// A piece is a head, or a part of its queries. Its keys and values are packed in panels; then a
// tile of rows is multiplied by the keys, its scores become powers of e, and those are multiplied
// by the values and divided by their sums. The text does not depend on the shape.

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
  Steps sums = {};  ///< Of the logarithms of sums.
  bool masks = false;
  bool saves = false;  ///< Whether those logarithms are wanted.
  bool causal = false;
  float scale = 1;
};

/// Attention in a program.
struct Attention {
  std::vector<StridedView>
      operands;  ///< Queries, keys, values, mask if any; result, sums if wanted.
  AttentionLayout layout;
};

/// `node`, which was not lowered, as attention that a kernel of `target` computes; nothing if it is
/// something else, or better left to libtorch.
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

/// Rows of queries that are worth packing keys and values for.
inline constexpr std::int64_t kMinQueries = 4;
/// Scores of a row that a thread has room for, and elements of a query.
inline constexpr std::int64_t kMaxKeys = 2048;
inline constexpr std::int64_t kMaxDepth = 256;

}  // namespace kiln::codegen
