// Operator calls as an archive writes them.

#pragma once

#include "kiln/ir/graph.hpp"
#include "serialized_types.hpp"
#include "symbol_writer.hpp"

namespace kiln::exporter {

/// The name of `value`, as a union of the schema's tensors takes it.
[[nodiscard]] Json tensor_argument(const ir::Graph& graph, ir::ValueId value);

/// An argument or a result that is a tensor, or None.
[[nodiscard]] Json write_value(const ir::Graph& graph, ir::ValueId value);

/// The nodes and values of `graph`, nested graphs within, between `inputs` and `outputs`. `symbols`
/// writes what depends on sizes; null for a nested graph, in which nothing may.
///
/// Throws `kUnsupported` for an operator or an argument that the format cannot express.
[[nodiscard]] Json write_graph(const ir::Graph& graph,
                               Json inputs,
                               Json outputs,
                               SymbolWriter* symbols);

}  // namespace kiln::exporter
