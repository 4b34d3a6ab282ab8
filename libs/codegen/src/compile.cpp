#include "kiln/codegen/compile.hpp"

#include <chrono>

#include "compile_schedule.hpp"
#include "kiln/codegen/schedule.hpp"
#include "kiln/codegen/target.hpp"
#include "toolchain/toolchain.hpp"

namespace kiln::codegen {

Report compile(const ir::Graph& graph,
               const std::filesystem::path& library,
               const Options& options) {
  if (options.progress) {
    options.progress({"schedule", 0, 1});
  }
  const auto start = std::chrono::steady_clock::now();
  const Target target = resolve_target(options.isa);
  const Schedule plan = schedule(graph, target, options.bind_constants);
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  if (options.progress) {
    options.progress({"schedule", 1, 1});
  }
  Report report = compile_schedule(graph, plan, target, library, options);
  report.schedule_ms = taken.count();
  return report;
}

std::string compiler_version(const Options& options) {
  return find_compiler(options.compiler, options.compiler_timeout).version;
}

}  // namespace kiln::codegen
