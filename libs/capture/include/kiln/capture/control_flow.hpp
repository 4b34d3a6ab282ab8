// Control flow that depends on data, for programs that are recorded: `if` and a loop over slices.
//
// In a program that runs they are what they say. In a trace each is one node with nested graphs:
// both branches are recorded, whichever is taken.

#pragma once

#include <ATen/core/Tensor.h>

#include "kiln/capture/record.hpp"

namespace kiln::capture {

/// A node `cond(predicate, true graph, false graph, operands)`. Both graphs take all operands.
inline constexpr const char* kCond = "higher_order.cond.default";
/// A node `map(body graph, sequences, operands)`. The body takes a slice of each sequence, then all
/// operands.
inline constexpr const char* kMap = "higher_order.map_impl.default";

/// `if_true(operands)` if `predicate`, a tensor of one element, is true; else `if_false(operands)`.
///
/// Both return the same number of tensors of the same geometry; a result that is an operand is a
/// copy of it. Other tensors that they use are found by themselves. While it is recorded, it throws
/// `Error` with `kInvalidArgument` if they differ in that or if one of them writes to a tensor that
/// it did not make, and its gradient cannot be recorded.
[[nodiscard]] Tensors cond(const at::Tensor& predicate,
                           const TensorFunction& if_true,
                           const TensorFunction& if_false,
                           const Tensors& operands);

/// The same for a predicate that is known: a literal in the graph, which keeps both branches.
[[nodiscard]] Tensors cond(bool predicate,
                           const TensorFunction& if_true,
                           const TensorFunction& if_false,
                           const Tensors& operands);

/// `body` on each slice of `sequences` along their first dimension, followed by `operands`; its
/// results stacked.
///
/// Throws `Error` with `kInvalidArgument` if there is no slice, or if the sequences are not of one
/// length; while it is recorded, also as `cond` does.
[[nodiscard]] Tensors map(const TensorFunction& body,
                          const Tensors& sequences,
                          const Tensors& operands = {});

}  // namespace kiln::capture
