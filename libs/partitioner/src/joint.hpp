// What every partition needs to know of a joint graph before it chooses anything.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::partitioner {

/// A joint graph that has been checked, with its nodes told apart.
struct Joint {
  /// Throws `Error` with `kInvalidArgument` if `joint` breaks the rules of partition.hpp.
  explicit Joint(const ir::Graph& joint);

  const ir::Graph& graph;
  std::size_t primal_count = 0;          ///< Inputs before the tangents.
  std::size_t forward_output_count = 0;  ///< Outputs before the gradients.

  std::vector<bool> needs_tangent;     ///< By node: can only run in the backward.
  std::vector<bool> required_forward;  ///< By node: the forward's outputs or write-backs need it.
  /// By node: the gradients or the backward's write-backs need it.
  std::vector<bool> required_backward;
  std::vector<std::vector<ir::NodeId>> users;  ///< By value, in program order, each once.
  std::vector<bool> is_tangent;                ///< By value: it is or depends on a tangent.
  /// By value: the earliest value that shares its memory, itself if none does.
  std::vector<ir::ValueId> base;

  /// Runs even if nothing uses its results.
  [[nodiscard]] bool must_run(ir::NodeId id) const;
  /// Values in the order of the program: inputs, then results.
  [[nodiscard]] std::vector<ir::ValueId> values_in_order() const;
  /// "%name", or "%name (aten.mm.default)" if a node makes it.
  [[nodiscard]] std::string describe(ir::ValueId id) const;
  /// By node: `nodes` and whatever they and `values` need.
  [[nodiscard]] std::vector<bool> ancestors(const std::vector<ir::ValueId>& values,
                                            const std::vector<ir::NodeId>& nodes) const;

 private:
  void check_inputs();
  void check_outputs() const;
  void follow_memory();
  void follow_tangents();
  void require_forward();
  void require_backward();
};

}  // namespace kiln::partitioner
