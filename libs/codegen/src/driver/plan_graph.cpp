#include "driver/plan_graph.hpp"

#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cuda/cuda_backend.hpp"
#include "kiln/codegen/target.hpp"
#include "kiln/ir/decompose.hpp"
#include "kiln/ir/strided_views.hpp"
#include "lower/lowering.hpp"
#include "passes/complex_numbers.hpp"
#include "passes/fold_batch_norms.hpp"
#include "passes/split_constants.hpp"
#include "schedule/schedule.hpp"

namespace kiln::codegen {
namespace {

/// Decomposes operators that have no lowering but whose parts have one, so that the parts can be
/// fused.
ir::Graph expanded(const ir::Graph& graph) {
  // These are faster as a whole: products, and operators whose parts would be scatters.
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

}  // namespace

std::unique_ptr<Backend> backend_of(const ir::Graph& graph, const Options& options) {
  if (device_of(graph) == ir::DeviceType::kCuda) {
    return std::make_unique<CudaBackend>(
        resolve_architectures(options.arch),
        CudaOptions{.nvrtc = nvrtc_stamp(options), .deterministic = options.deterministic});
  }
  return std::make_unique<CpuBackend>(resolve_targets(options.isa),
                                      CpuPolicy{.winograd = options.winograd});
}

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

ScheduledProgram plan_graph(ir::Graph graph, const Backend& backend, bool bind_constants) {
  Schedule steps = schedule(graph, backend, bind_constants);
  KernelTable kernels = write_kernels(graph, steps, backend);
  return {std::move(graph), std::move(steps), std::move(kernels)};
}

}  // namespace kiln::codegen
