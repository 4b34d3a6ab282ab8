#include "kiln/codegen/compile.hpp"

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cuda/cuda_backend.hpp"
#include "driver/compile_schedule.hpp"
#include "driver/describe_plan.hpp"
#include "kiln/codegen/target.hpp"
#include "kiln/ir/decompose.hpp"
#include "kiln/ir/strided_views.hpp"
#include "lower/lowering.hpp"
#include "passes/complex_numbers.hpp"
#include "passes/fold_batch_norms.hpp"
#include "passes/split_constants.hpp"
#include "program/program.hpp"
#include "schedule/schedule.hpp"
#include "toolchain/clock.hpp"
#include "toolchain/linker.hpp"
#include "toolchain/toolchain.hpp"

namespace kiln::codegen {
namespace {

/// What has no lowering is expanded where the parts have one, so that they can join other kernels.
ir::Graph expanded(const ir::Graph& graph) {
  // These are faster whole: products, and what would become scatters.
  static const std::unordered_set<std::string_view> whole = {"aten.addbmm.default",
                                                             "aten.addmv.default",
                                                             "aten.addr.default",
                                                             "aten.baddbmm.default",
                                                             "aten.celu.default",
                                                             "aten.dot.default",
                                                             "aten.mv.default",
                                                             "aten.nll_loss_backward.default",
                                                             "aten.nll_loss2d_backward.default",
                                                             "aten.select_backward.default",
                                                             "aten.slice_backward.default"};
  return ir::decompose(graph, {.keep = [](std::string_view target) {
                         return has_lowering(target) || whole.contains(target);
                       }});
}

std::unique_ptr<Backend> backend_of(const ir::Graph& graph, const Options& options) {
  if (device_of(graph) == ir::DeviceType::kCuda) {
    return std::make_unique<CudaBackend>(
        resolve_architectures(options.arch),
        CudaOptions{.nvrtc = nvrtc_stamp(options), .deterministic = options.deterministic});
  }
  return std::make_unique<CpuBackend>(resolve_targets(options.isa),
                                      CpuPolicy{.winograd = options.winograd});
}

// The graphs that are scheduled: the program, and what computes its folded constants.
struct PreparedGraphs {
  ir::Graph graph;
  std::optional<ir::Graph> folding;
};

PreparedGraphs prepare(const ir::Graph& program, const Backend& backend, bool bind_constants) {
  ir::Graph graph = complex_numbers_as_tensors(expanded(ir::lift_strided_views(program)));
  if (bind_constants) {
    graph = fold_batch_norms(graph);
  }
  graph = backend.prepare(graph, bind_constants);
  if (bind_constants) {
    SplitProgram split = split_constants(graph);
    if (split.folded() != 0) {
      return {std::move(split.run), std::move(split.fold)};
    }
  }
  return {std::move(graph), std::nullopt};
}

ScheduledProgram plan(ir::Graph graph, const Backend& backend, bool bind_constants) {
  Schedule steps = schedule(graph, backend, bind_constants);
  KernelTable kernels = write_kernels(graph, steps, backend);
  return {std::move(graph), std::move(steps), std::move(kernels)};
}

}  // namespace

ir::DeviceType device_of(const ir::Graph& graph) {
  const auto first = std::ranges::find_if(graph.values(), &ir::Value::is_tensor);
  return first == graph.values().end() ? ir::DeviceType::kCpu : first->tensor().device.type;
}

Report compile(const ir::Graph& program,
               const std::filesystem::path& library,
               const Options& options) {
  if (options.progress) {
    options.progress({"schedule", 0, 1});
  }
  const Clock::time_point start = Clock::now();
  // Trying the compiler takes as long as the schedule.
  std::future<void> tried = std::async(std::launch::async, [&options] {
    static_cast<void>(find_compiler(options.compiler, options.compiler_timeout));
  });
  const std::unique_ptr<Backend> backend = backend_of(program, options);
  PreparedGraphs graphs = prepare(program, *backend, options.bind_constants);
  const ScheduledProgram planned = plan(std::move(graphs.graph), *backend, options.bind_constants);
  std::optional<ScheduledProgram> folding;
  if (graphs.folding) {
    folding = plan(std::move(*graphs.folding), *backend, true);
  }
  const double taken = milliseconds_since(start);
  if (options.progress) {
    options.progress({"schedule", 1, 1});
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
  ScheduledProgram planned = plan(
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
