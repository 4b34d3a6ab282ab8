// A program at sizes of its inputs that are chosen.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kiln/export/dynamic_trace.hpp"
#include "kiln/export/exported_program.hpp"
#include "kiln/ir/expr.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::exporter {

/// Whether all symbols that `guard` mentions have values in `all`.
[[nodiscard]] bool is_known(const ir::Guard& guard, const ir::Bindings& all);

/// Refers to what it is made with.
class SampledProgram {
 public:
  SampledProgram(const TraceProgram& trace,
                 const RunProgram& run,
                 const ExportedProgram& fixed,
                 const Tensors& example,
                 const DynamicShapes& shapes);

  /// The values that symbols have in the example, where an input's size is a line in one of them.
  /// They have these where a call below does not say otherwise.
  [[nodiscard]] const ir::Bindings& hint() const { return hint_; }

  /// Whether sizes that are too large for a trace are taken for granted.
  [[nodiscard]] bool trusts_large_sizes() const { return shapes_.trust_large_sizes; }

  /// Whether inputs of these sizes are small enough for a trace.
  [[nodiscard]] bool is_affordable(const ir::Bindings& sizes) const;

  /// Whether a call with inputs of these sizes keeps the program's guards.
  [[nodiscard]] bool keeps_guards(const ir::Bindings& sizes) const;

  /// The trace at `sizes`, or nothing and why there is none.
  [[nodiscard]] std::optional<ir::Graph> trace_at(const ir::Bindings& sizes,
                                                  std::string* reason) const;

  /// Whether the program does at `sizes` what `graph` says, or comes to the same results.
  [[nodiscard]] bool holds_at(const ir::Graph& graph,
                              const ir::Bindings& sizes,
                              std::string* reason) const;

 private:
  [[nodiscard]] ir::Bindings completed(ir::Bindings sizes) const;
  [[nodiscard]] std::vector<std::int64_t> sizes_of(std::size_t input,
                                                   const ir::Bindings& all) const;
  [[nodiscard]] Tensors inputs_at(const ir::Bindings& sizes) const;
  [[nodiscard]] bool has_same_weights(const ExportedProgram& traced) const;
  [[nodiscard]] bool computes_the_same(const ir::Graph& graph, const ir::Bindings& sizes) const;

  const TraceProgram& trace_;
  const RunProgram& run_;
  const ExportedProgram& fixed_;
  const Tensors& example_;
  const DynamicShapes& shapes_;
  ir::Bindings hint_;
};

}  // namespace kiln::exporter
