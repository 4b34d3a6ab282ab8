// The interpreter: from a graph to dispatcher calls. The reference for every backend.

#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::capture {

/// How a graph is interpreted.
struct ReplayOptions {
  /// Compare every value's dtype, sizes and strides with what the graph says; throws `kInternal`
  /// where they differ.
  bool check_metadata = false;
};

/// Runs a graph, node by node, through libtorch's dispatcher.
///
/// Operators are resolved once, when it is made; those of a graph with symbols in each run, when
/// its inputs say what they are. Thread-safe: `run` changes nothing.
class Interpreter {
 public:
  /// Throws `Error` with `kUnsupported` naming an operator that is not registered.
  explicit Interpreter(ir::Graph graph, ReplayOptions options = {});
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;             ///< Leaves the other empty.
  Interpreter& operator=(Interpreter&&) noexcept;  ///< Leaves the other empty.

  /// Runs on one tensor per graph input; returns one per graph output, undefined where the graph
  /// has none.
  ///
  /// Values are freed after their last use: move the inputs in to free them too. Throws `Error`
  /// with `kInvalidArgument` if the inputs' sizes are none that the graph's symbols allow.
  [[nodiscard]] std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) const;

  [[nodiscard]] const ir::Graph& graph() const;  ///< What it runs.

 private:
  struct Program;
  std::unique_ptr<const Program> program_;
};

}  // namespace kiln::capture
