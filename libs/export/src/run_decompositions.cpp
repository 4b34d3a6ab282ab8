#include <utility>

#include "kiln/export/export.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/ir/verify.hpp"

namespace kiln::exporter {

ExportedProgram run_decompositions(ExportedProgram program, const ir::DecomposeOptions& options) {
  program = run_dispatch(std::move(program));
  program.graph = ir::remove_dead_code(ir::decompose(program.graph, options));
  ir::verify_functional(program.graph);
  return program;
}

}  // namespace kiln::exporter
