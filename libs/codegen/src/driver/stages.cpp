#include "kiln/codegen/stages.hpp"

#include <memory>

#include "driver/plan_graph.hpp"
#include "loop/program_text.hpp"
#include "lower/lowering.hpp"
#include "schedule/print_schedule.hpp"

namespace kiln::codegen {

PreparedGraphs prepare(const ir::Graph& program, const Options& options) {
  return prepare(program, *backend_of(program, options), options.bind_constants);
}

std::string print_loops(const ir::Graph& prepared, const Options& options) {
  const std::unique_ptr<Backend> backend = backend_of(prepared, options);
  return print(prepared, lower(prepared, [&](const ir::Node& node) {
                 return backend->wants_loops(prepared, node);
               }));
}

std::string print_schedule(const ir::Graph& prepared, const Options& options) {
  return print(prepared,
               schedule(prepared, *backend_of(prepared, options), options.bind_constants));
}

}  // namespace kiln::codegen
