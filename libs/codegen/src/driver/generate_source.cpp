#include "driver/generate_source.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kiln/base/error.hpp"
#include "program/emit.hpp"
#include "program/treespec.hpp"
#include "program/weights.hpp"
#include "toolchain/compile_flags.hpp"

namespace kiln::codegen {
namespace {

void require_device(const Schedule& schedule, const Backend& backend) {
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.device.type != backend.device()) {
      throw Error(ErrorCode::kUnsupported,
                  "code for " + ir::to_string(buffer.device) + " cannot be generated");
    }
  }
}

// The kernels of the program for one target, and then those of the folding program.
std::vector<KernelSource> kernels_for(std::size_t target,
                                      const ScheduledProgram& program,
                                      const ScheduledProgram* folding) {
  std::vector<KernelSource> kernels = program.kernels.by_target[target];
  if (folding != nullptr) {
    std::ranges::copy(folding->kernels.by_target[target], std::back_inserter(kernels));
  }
  return kernels;
}

// The model's description of itself, with the offsets of its constants.
ModelDescription describe_model(const Program& program,
                                std::size_t folded,
                                const Backend& backend,
                                const Options& options) {
  ModelDescription description{
      .in_spec = options.in_spec.empty() ? flat_input_spec(program.inputs.size()) : options.in_spec,
      .out_spec =
          options.out_spec.empty() ? flat_output_spec(program.outputs.size()) : options.out_spec,
      .cpu_features = backend.features(0),
      .check_inputs = options.check_inputs,
      .record_kernels = options.record_kernels,
      .waits_for_indices = options.check_indices_now,
      .libtorch = options.libtorch,
      .constants = {},
      .weights_bytes = 0};
  description.folded = folded;
  place_constants(program, options.constants, options.store_folded, &description);
  return description;
}

}  // namespace

GeneratedSource generate_source(const ScheduledProgram& scheduled,
                                const ScheduledProgram* folding,
                                const Backend& backend,
                                const Options& options) {
  const auto& [graph, schedule, table] = scheduled;
  require_device(schedule, backend);
  GeneratedSource source{.program = plan_program(graph, schedule, table, options.bind_constants)};
  if (folding != nullptr) {
    source.fold = plan_program(folding->graph, folding->schedule, folding->kernels, true);
  }
  const Program* const fold = source.fold ? &*source.fold : nullptr;
  const ModelDescription description =
      describe_model(source.program, fold != nullptr ? fold->outputs.size() : 0, backend, options);
  std::vector<KernelSet> sets;
  const std::size_t run_kernels = table.kernels().size();
  for (std::size_t target = 0; target < backend.target_count(); ++target) {
    const std::vector<KernelSource> kernels = kernels_for(target, scheduled, folding);
    KernelUnits units = backend.units(kernels, target, run_kernels);
    if (target == 0) {
      source.described_units = 1 + units.units.size();
      source.distinct_kernels = units.distinct;
      source.names = units.names;
    }
    std::ranges::move(units.units, std::back_inserter(source.build.units));
    sets.push_back({backend.features(target), std::move(units.names), std::move(units.loaders)});
    source.build.openmp =
        source.build.openmp || std::ranges::any_of(kernels, &KernelSource::uses_openmp);
  }
  ProgramText text = emit_program(source.program, fold, sets, backend.operations(), description);
  source.build.units.insert(source.build.units.begin(),
                            {"model", std::move(text.source), program_compile_flags()});
  source.extern_nodes = std::move(text.extern_nodes);
  return source;
}

}  // namespace kiln::codegen
