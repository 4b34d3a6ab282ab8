// What every partition needs to know of a joint graph before it chooses anything.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"
#include "kiln/ir/uses.hpp"

namespace kiln::partitioner {

/// By value: the first value, in the order of the program, that may share its memory.
[[nodiscard]] std::vector<ir::ValueId> memory_bases(const ir::Graph& graph);

/// Inputs, then results.
[[nodiscard]] std::vector<ir::ValueId> program_order(const ir::Graph& graph);

/// A joint graph that has been checked, with its nodes classified.
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
  ir::Uses users;
  std::vector<bool> is_tangent;   ///< By value: it is or depends on a tangent.
  std::vector<ir::ValueId> base;  ///< By value: see `memory_bases`.

  /// Has an effect, so that it runs once, on its side, even if nothing uses its results.
  [[nodiscard]] bool has_effect(ir::NodeId id) const;
  /// Runs even if nothing uses its results: effects, and draws, so that the generator goes on as it
  /// did in eager.
  [[nodiscard]] bool must_run(ir::NodeId id) const;
  [[nodiscard]] std::vector<ir::ValueId> values_in_order() const { return program_order(graph); }
  /// "%name", or "%name (aten.mm.default)" if a node makes it.
  [[nodiscard]] std::string describe(ir::ValueId id) const;
  /// By node: `nodes` and whatever they and `values` need.
  [[nodiscard]] std::vector<bool> ancestors(const std::vector<ir::ValueId>& values,
                                            const std::vector<ir::NodeId>& nodes) const;

 private:
  void check_inputs();
  void check_outputs() const;
  void follow_tangents();
  void require_forward();
  void require_backward();
};

}  // namespace kiln::partitioner
