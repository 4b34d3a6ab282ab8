#include "kiln/codegen/compile.hpp"

#include <algorithm>
#include <future>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>

#include "backend/cpu/kernel_units.hpp"
#include "backend/cpu/pack_convolutions.hpp"
#include "backend/cpu/pack_gemm_operands.hpp"
#include "backend/cpu/unfuse_bias.hpp"
#include "driver/compile_schedule.hpp"
#include "driver/describe_plan.hpp"
#include "kiln/codegen/target.hpp"
#include "kiln/ir/decompose.hpp"
#include "lower/lowering.hpp"
#include "passes/channels_last.hpp"
#include "passes/complex_numbers.hpp"
#include "passes/fold_batch_norms.hpp"
#include "passes/split_constants.hpp"
#include "passes/unroll_lstm.hpp"
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

std::vector<Target> targets_of(const Options& options) {
  std::vector<Target> targets = resolve_targets(options.isa);
  for (Target& target : targets) {
    target.winograd = options.winograd;
  }
  return targets;
}

// A program in the form that is scheduled.
struct Prepared {
  ir::Graph graph;
  std::optional<Folding> folding;
};

// The kernels of the same plans for other instruction sets.
std::vector<KernelVariant> other_kernels(const Prepared& prepared,
                                         std::span<const Target> targets,
                                         bool bind_constants) {
  std::vector<KernelVariant> variants;
  for (const Target& target : targets) {
    KernelVariant& variant = variants.emplace_back(
        KernelVariant{target, schedule(prepared.graph, target, bind_constants).kernels});
    if (prepared.folding) {
      std::ranges::move(schedule(prepared.folding->graph, target, true).kernels,
                        std::back_inserter(variant.kernels));
    }
  }
  return variants;
}

Prepared prepare(const ir::Graph& program, const Target& target, bool bind_constants) {
  Prepared prepared{complex_numbers_as_tensors(expanded(program)), std::nullopt};
  if (bind_constants) {
    prepared.graph = fold_batch_norms(prepared.graph);
  }
  if (target.panel_width > 0) {
    if (bind_constants) {
      prepared.graph = unroll_lstm(prepared.graph);
    }
    prepared.graph = pack_gemm_operands(prepared.graph, target, bind_constants);
  }
  if (!target.blas_packs_slowly) {
    prepared.graph = unfuse_biases(prepared.graph);
  }
  prepared.graph = lay_out_channels_last(prepared.graph, bind_constants);
  if (bind_constants) {
    if (target.panel_width > 0) {
      prepared.graph = pack_convolutions(prepared.graph, target.panel_width);
    }
    SplitProgram split = split_constants(prepared.graph);
    if (split.folded() != 0) {
      Schedule constants = schedule(split.fold, target, true);
      prepared.folding = Folding{std::move(split.fold), std::move(constants)};
      prepared.graph = std::move(split.run);
    }
  }
  return prepared;
}

}  // namespace

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
  const std::vector<Target> targets = targets_of(options);
  const Prepared prepared = prepare(program, targets[0], options.bind_constants);
  const Schedule plan = schedule(prepared.graph, targets[0], options.bind_constants);
  const std::vector<KernelVariant> variants =
      other_kernels(prepared, std::span(targets).subspan(1), options.bind_constants);
  const double taken = milliseconds_since(start);
  if (options.progress) {
    options.progress({"schedule", 1, 1});
  }
  tried.get();
  Report report = compile_schedule(prepared.graph,
                                   plan,
                                   targets[0],
                                   library,
                                   options,
                                   prepared.folding ? &*prepared.folding : nullptr,
                                   variants);
  report.schedule_ms = taken;
  if (options.store_folded && prepared.folding) {
    report.folding = prepared.folding->graph;
  }
  return report;
}

std::string describe(const ir::Graph& program, const Options& options) {
  const Target target = targets_of(options)[0];
  const Prepared prepared = prepare(program, target, options.bind_constants);
  const Schedule plan = schedule(prepared.graph, target, options.bind_constants);
  const KernelUnits kernels = group_kernels(plan.kernels, target);
  return describe_plan(
      plan_program(prepared.graph, plan, options.bind_constants), kernels.names, kernels.units, {});
}

std::string compiler_version(const Options& options) {
  return find_compiler(options.compiler, options.compiler_timeout).version;
}

std::string linker_name(const Options& options) {
  const Compiler& compiler = find_compiler(options.compiler, options.compiler_timeout);
  return find_linker(compiler, options.compiler_timeout).name;
}

std::optional<std::string> compiler_stamp(const Options& options) {
  return stamp_of_compiler(options.compiler);
}

}  // namespace kiln::codegen
