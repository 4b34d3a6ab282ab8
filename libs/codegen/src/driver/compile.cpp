#include "kiln/codegen/compile.hpp"

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "driver/compile_schedule.hpp"
#include "driver/describe_plan.hpp"
#include "driver/plan_graph.hpp"
#include "program/program.hpp"
#include "toolchain/clock.hpp"
#include "toolchain/linker.hpp"
#include "toolchain/toolchain.hpp"

namespace kiln::codegen {

ir::DeviceType device_of(const ir::Graph& graph) {
  const auto first = std::ranges::find_if(graph.values(), &ir::Value::is_tensor);
  return first == graph.values().end() ? ir::DeviceType::kCpu : first->tensor().device.type;
}

Report compile(const ir::Graph& program,
               const std::filesystem::path& library,
               const Options& options) {
  if (options.progress) {
    options.progress({Stage::kSchedule, 0, 1});
  }
  const Clock::time_point start = Clock::now();
  // Trying the compiler takes as long as the schedule.
  std::future<void> tried = std::async(std::launch::async, [&options] {
    static_cast<void>(find_compiler(options.compiler, options.compiler_timeout));
  });
  const std::unique_ptr<Backend> backend = backend_of(program, options);
  PreparedGraphs graphs = prepare(program, *backend, options.bind_constants);
  const ScheduledProgram planned =
      plan_graph(std::move(graphs.graph), *backend, options.bind_constants);
  std::optional<ScheduledProgram> folding;
  if (graphs.folding) {
    folding = plan_graph(std::move(*graphs.folding), *backend, true);
  }
  const double taken = milliseconds_since(start);
  if (options.progress) {
    options.progress({Stage::kSchedule, 1, 1});
  }
  tried.get();
  Report report =
      compile_schedule(planned, folding ? &*folding : nullptr, *backend, library, options);
  report.schedule_ms = taken;
  if (options.store_folded && folding) {
    report.folding = std::move(folding->graph);
  }
  return report;
}

Description describe(const ir::Graph& program, const Options& options) {
  const std::unique_ptr<Backend> backend = backend_of(program, options);
  ScheduledProgram planned = plan_graph(
      prepare(program, *backend, options.bind_constants).graph, *backend, options.bind_constants);
  const std::vector<KernelSource>& kernels = planned.kernels.kernels();
  const KernelUnits units = backend->units(kernels, 0, kernels.size());
  std::string text = describe_plan(
      plan_program(planned.graph, planned.schedule, planned.kernels, options.bind_constants),
      units.names,
      units.units,
      {});
  return {std::move(text), std::move(planned.graph)};
}

std::string compiler_version(const Options& options) {
  return find_compiler(options.compiler, options.compiler_timeout).identity();
}

std::string linker_name(const Options& options) {
  const Compiler& compiler = find_compiler(options.compiler, options.compiler_timeout);
  return find_linker(compiler, options.compiler_timeout).name;
}

std::optional<std::string> compiler_stamp(const Options& options) {
  return stamp_of_compiler(options.compiler);
}

}  // namespace kiln::codegen
