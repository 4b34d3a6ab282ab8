#include "kiln/codegen/compile.hpp"

#include <chrono>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "compile_schedule.hpp"
#include "kiln/codegen/schedule.hpp"
#include "kiln/codegen/target.hpp"
#include "kiln/ir/decompose.hpp"
#include "lower/lowering.hpp"
#include "prepare/constants.hpp"
#include "prepare/convolution.hpp"
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

}  // namespace

Report compile(const ir::Graph& program,
               const std::filesystem::path& library,
               const Options& options) {
  if (options.progress) {
    options.progress({"schedule", 0, 1});
  }
  const auto start = std::chrono::steady_clock::now();
  const Target target = resolve_target(options.isa);
  ir::Graph graph = expanded(program);
  if (options.bind_constants) {
    graph = fold_batch_norms(graph);
  }
  graph = lay_out_channels_last(graph, options.bind_constants);
  std::optional<Folding> folding;
  if (options.bind_constants) {
    SplitProgram split = split_constants(graph);
    if (split.folded() != 0) {
      Schedule constants = schedule(split.fold, target, true);
      folding = Folding{std::move(split.fold), std::move(constants)};
      graph = std::move(split.run);
    }
  }
  const Schedule plan = schedule(graph, target, options.bind_constants);
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  if (options.progress) {
    options.progress({"schedule", 1, 1});
  }
  Report report =
      compile_schedule(graph, plan, target, library, options, folding ? &*folding : nullptr);
  report.schedule_ms = taken.count();
  return report;
}

std::string compiler_version(const Options& options) {
  return find_compiler(options.compiler, options.compiler_timeout).version;
}

std::optional<std::string> compiler_stamp(const Options& options) {
  return stamp_of_compiler(options.compiler);
}

}  // namespace kiln::codegen
