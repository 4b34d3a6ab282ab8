#include "kiln/codegen/stages.hpp"

#include <memory>
#include <optional>
#include <utility>

#include "driver/generate_source.hpp"
#include "driver/plan_graph.hpp"
#include "loop/program_text.hpp"
#include "schedule/print_schedule.hpp"
#include "schedule/schedule.hpp"

namespace kiln::codegen {

PreparedGraphs prepare(const ir::Graph& program, const Options& options) {
  return prepare(program, *backend_of(program, options), options.bind_constants);
}

std::string print_loops(const ir::Graph& prepared, const Options& options) {
  return print(prepared, lower_for(*backend_of(prepared, options), prepared));
}

std::string print_schedule(const ir::Graph& prepared, const Options& options) {
  return print(prepared,
               schedule(prepared, *backend_of(prepared, options), options.bind_constants));
}

std::string print_source(PreparedGraphs graphs, const Options& options) {
  const std::unique_ptr<Backend> backend = backend_of(graphs.graph, options);
  const ScheduledProgram program =
      plan_graph(std::move(graphs.graph), *backend, options.bind_constants);
  std::optional<ScheduledProgram> folding;
  if (graphs.folding) {
    folding = plan_graph(std::move(*graphs.folding), *backend, true);
  }
  const GeneratedSource source =
      generate_source(program, folding ? &*folding : nullptr, *backend, options);
  std::string text;
  for (const Unit& unit : source.of_first_target()) {
    text += "// " + unit.name + ".cpp\n" + unit.source;
    text += unit.images.empty() ? "" : "// " + unit.name + ".cu\n" + unit.images[0].source;
  }
  return text;
}

}  // namespace kiln::codegen
