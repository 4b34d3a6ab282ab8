// Functions traced for a range of sizes.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "integer_history.hpp"
#include "kiln/autograd_dispatch/joint.hpp"
#include "kiln/export/dynamic_trace.hpp"
#include "kiln/jit/function.hpp"
#include "output_windows.hpp"
#include "symbolic_sizes.hpp"

namespace kiln {

/// A function at sizes that it was not called with: traced there without computing, on inputs like
/// those of a call. Neither they nor what the function captures are changed by it.
class FunctionSampler {
 public:
  /// `captured` and `plan` are those of the trace of the call with `inputs`, of which the last
  /// `integers` stand for integers; `history` has those that it may be traced with, null if any
  /// will do. Refers to `function` and `history`.
  FunctionSampler(const autograd_dispatch::TensorFunction& function,
                  const Tensors& inputs,
                  Tensors captured,
                  autograd_dispatch::Plan plan,
                  autograd_dispatch::TraceOptions options,
                  std::size_t integers,
                  const IntegerHistory* history);

  /// Turns `graph`, the trace of a call with `inputs`, into one for sizes that `shapes` allow, and
  /// returns those for which it is what the function does; nothing if all sizes are fixed, and then
  /// it is as it was. A range ends a few times beyond the sizes of the call; where nothing is in
  /// the way of a larger one, the graph has the one that `shapes` allow.
  ///
  /// `remarks` get what does not vary, or varies less, and why.
  [[nodiscard]] std::optional<SymbolicSizes> generalize(ir::Graph& graph,
                                                        const Tensors& inputs,
                                                        exporter::DynamicShapes shapes,
                                                        std::vector<std::string>* remarks);

  /// Whether a graph that `generalize` made, for the sizes `sizes`, holds for a call with `inputs`
  /// too, which may be beyond the ends of ranges but are in those of the graph: then `sizes` hold
  /// for them. A range that ends where the function does something else ends there in the graph
  /// too.
  [[nodiscard]] bool widen(ir::Graph& graph, const Tensors& inputs, SymbolicSizes* sizes);

  /// That of the trace, for the sizes that `generalize` returned.
  [[nodiscard]] const autograd_dispatch::Plan& plan() const { return plan_; }
  /// How many traces were made.
  [[nodiscard]] int traces() const { return traces_; }

 private:
  [[nodiscard]] exporter::ExportedProgram program_of(ir::Graph graph,
                                                     const autograd_dispatch::Plan& plan) const;
  [[nodiscard]] exporter::ExportedProgram trace_at(const Tensors& inputs);
  [[nodiscard]] Tensors run(const Tensors& inputs) const;

  const autograd_dispatch::TensorFunction& function_;
  Tensors captured_;
  std::vector<bool> has_history_;  // By input of the call.
  autograd_dispatch::Plan plan_;
  std::string plan_bytes_;  // Without windows.
  std::optional<OutputWindows> windows_;
  autograd_dispatch::TraceOptions options_;
  std::size_t integers_;
  const IntegerHistory* history_;
  int traces_ = 0;
};

}  // namespace kiln
