// Rules about sizes and strides, as libtorch has them.

#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

[[nodiscard]] bool is_contiguous(const TensorMeta& meta);

/// Whether the elements fill a stretch of memory without gaps or overlap, in whatever order of
/// dimensions.
[[nodiscard]] bool is_dense(const TensorMeta& meta);

/// Whether elements are known to share memory, or not known not to.
[[nodiscard]] bool may_overlap(const TensorMeta& meta);

/// Whether elements repeat along a dimension, as those of an expanded tensor do. libtorch does not
/// write such a tensor.
[[nodiscard]] bool is_expanded(const TensorMeta& meta);

/// Dimensions from the outermost in memory to the innermost.
[[nodiscard]] std::vector<std::size_t> memory_order(const TensorMeta& meta);

/// Strides of a fresh tensor "like" `meta` (preserve_format): the same if it is dense, else dense
/// in its order.
[[nodiscard]] std::vector<Expr> strides_like(const TensorMeta& meta);

/// A copy of `meta`, gaps and all; but what is to be read conjugated or negated is resolved first,
/// and then dense.
[[nodiscard]] TensorMeta copy_of(TensorMeta meta);

/// Strides that elementwise operators give a fresh result of `sizes`: in the order of the operands'
/// dimensions, the first operand that tells one dimension from another deciding.
[[nodiscard]] std::vector<Expr> pointwise_strides(std::span<const Expr> sizes,
                                                  std::span<const TensorMeta* const> operands);

/// Strides of a view with `sizes` of `meta`, or nothing if only a copy can have them.
[[nodiscard]] std::optional<std::vector<Expr>> view_strides(const TensorMeta& meta,
                                                            std::span<const Expr> sizes);

/// Element positions in the storage, first and one past the last. Nothing if they are symbolic.
struct Extent {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
[[nodiscard]] std::optional<Extent> extent_of(const TensorMeta& meta);

/// Whether every element of `inner` is one of `outer`'s, all in the same storage. False if that
/// would take long to tell.
[[nodiscard]] bool hold_elements(std::span<const TensorMeta* const> outer, const TensorMeta& inner);

/// Same strides, but for dimensions of one element, where a stride says nothing.
[[nodiscard]] bool same_strides(const TensorMeta& a, const TensorMeta& b);

/// Same elements in the same places, read in the same way.
[[nodiscard]] bool same_geometry(const TensorMeta& a, const TensorMeta& b);
[[nodiscard]] std::size_t hash_of_geometry(const TensorMeta& meta);

/// The type of an operation on tensors of these types, by libtorch's rules of promotion.
[[nodiscard]] DType promote(DType a, DType b);
[[nodiscard]] DType promote(std::span<const TensorMeta* const> operands);

}  // namespace kiln::ir
