// Graphs to JSON, as schema.py's `Graph` and `GraphSignature`.

#pragma once

#include "kiln/export/exported_program.hpp"
#include "serialized_types.hpp"
#include "symbol_writer.hpp"

namespace kiln::exporter {

/// The graph of `program`, whose symbols `symbols` writes. Throws `kUnsupported` naming a node or
/// argument that the schema cannot express.
[[nodiscard]] Json write_graph(const ExportedProgram& program, SymbolWriter& symbols);

/// The signature of `program`, after its graph. Throws `kUnsupported` if it is a joint graph.
[[nodiscard]] Json write_signature(const ExportedProgram& program, SymbolWriter& symbols);

}  // namespace kiln::exporter
