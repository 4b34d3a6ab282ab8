// A joint graph, which computes outputs and gradients at once, split into two graphs.
//
// The joint graph's inputs are primals of any kind, then tangents (`InputKind::kTangent`); its
// outputs are the program's own (`kUser`, `kMutation`), then gradients (`kGradient`), whose `input`
// is the primal's position; a `kMutation` after those is a primal's new contents that the backward
// computes. `Node::backward` marks what was recorded while differentiating. The graph is
// functional, but for write-backs to its inputs (`aten.copy_`), which stay on their side.

#pragma once

#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::partitioner {

/// A forward and a backward graph. What the forward hands over are its outputs of kind `kSaved`,
/// which are the backward's inputs of kind `kSaved`.
///
/// Forward: all primals in order -> the joint graph's non-gradient outputs in order, saved tensors,
/// saved integers. Backward: saved integers, saved tensors, all tangents in order -> the gradients
/// and new contents in order, `Output::input` still counting the joint graph's inputs. Tensors and
/// integers have the same order among themselves on both sides; integers that are a bare symbol
/// come before derived ones, and every symbol that the backward mentions is bound by one (or by a
/// tangent's size). A saved value may be a primal or a user output. One that the forward overwrites
/// before the backward reads it is saved as a copy.
struct Partition {
  ir::Graph forward;   ///< Its last outputs are what it saves.
  ir::Graph backward;  ///< Takes them, then the tangents.
  /// For each saved output of the forward, in order: why it is saved and not recomputed.
  std::vector<std::string> reasons = {};
};

/// Splits `joint` in program order: what was recorded before differentiation started is the
/// forward, and every tensor of it that the backward reads is saved. Nothing is recomputed.
///
/// Where the backward asks a tensor only for its sizes, the sizes are saved and the tensor is not.
/// Throws `Error` with `kInvalidArgument` if `joint` is not as described above, naming the value.
[[nodiscard]] Partition default_partition(const ir::Graph& joint);

}  // namespace kiln::partitioner
