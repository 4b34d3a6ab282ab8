#include "driver/compile_schedule.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "backend/cpu/kernel_units.hpp"
#include "driver/describe_plan.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/log.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/ir/print.hpp"
#include "program/emit.hpp"
#include "program/program.hpp"
#include "program/treespec.hpp"
#include "program/weights.hpp"
#include "toolchain/build.hpp"
#include "toolchain/clock.hpp"
#include "toolchain/precompiled_kernels.hpp"

namespace kiln::codegen {
namespace fs = std::filesystem;

namespace {

// Sources and objects while a build lasts. Of a build that fails only the sources stay, where the
// message says; with `keep_source` they stay in any case.
class Workspace {
 public:
  explicit Workspace(const fs::path& keep_source)
      : keep_source_(keep_source), directory_("kiln-codegen") {}

  [[nodiscard]] const fs::path& path() const { return directory_.path(); }

  void keep(const std::vector<Unit>& units) {
    if (!keep_source_.empty()) {
      for (const Unit& unit : units) {
        write_file_atomically(keep_source_ / (unit.name + ".cpp"), unit.source);
      }
    }
  }

  void keep_sources_if_named(std::string_view message) {
    if (message.find(directory_.path().string()) == std::string_view::npos) {
      return;
    }
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory_.path(), ignored)) {
      if (entry.path().extension() != ".cpp") {
        remove_tree(entry.path());
      }
    }
    directory_.release();
  }

 private:
  fs::path keep_source_;
  TemporaryDirectory directory_;
};

// Loaders look for the file by this name, so one that is not needed must not be there.
fs::path write_extern_nodes(const std::string& json, const fs::path& library) {
  const fs::path path = fs::path(library).replace_extension(".json");
  if (json.empty()) {
    std::error_code ignored;
    fs::remove(path, ignored);
    return {};
  }
  write_file_atomically(path, json);
  return path;
}

void require_cpu(const Schedule& schedule) {
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.device.type != ir::DeviceType::kCpu) {
      throw Error(ErrorCode::kUnsupported,
                  "code for " + ir::to_string(buffer.device) + " cannot be generated");
    }
  }
}

bool uses_openmp(const std::vector<Kernel>& kernels) {
  return std::any_of(kernels.begin(), kernels.end(), [](const Kernel& kernel) {
    return kernel.source.find("#pragma omp") != std::string::npos;
  });
}

}  // namespace

Report compile_schedule(const ir::Graph& graph,
                        const Schedule& schedule,
                        const Target& target,
                        const fs::path& library,
                        const Options& options,
                        const Folding* folding,
                        std::span<const KernelVariant> variants) {
  Report report;
  const Clock::time_point start = Clock::now();
  require_cpu(schedule);
  const Program program = plan_program(graph, schedule, options.bind_constants);
  std::optional<Program> fold;
  std::vector<Kernel> all_kernels = schedule.kernels;
  if (folding != nullptr) {
    fold = plan_program(folding->graph, folding->schedule, true);
    all_kernels.insert(
        all_kernels.end(), folding->schedule.kernels.begin(), folding->schedule.kernels.end());
  }
  ModelDescription description{
      .in_spec = options.in_spec.empty() ? flat_input_spec(program.inputs.size()) : options.in_spec,
      .out_spec =
          options.out_spec.empty() ? flat_output_spec(program.outputs.size()) : options.out_spec,
      .cpu_features = target.cpu_features,
      .check_inputs = options.check_inputs,
      .record_kernels = options.record_kernels,
      .libtorch = options.libtorch,
      .constants = {},
      .weights_bytes = 0};
  description.folded = fold ? fold->outputs.size() : 0;
  place_constants(program, options.constants, options.store_folded, &description);
  KernelUnits kernels = group_kernels(all_kernels, target, {}, schedule.kernels.size());
  BuildPlan build;
  build.units = std::move(kernels.units);
  std::vector<KernelSet> sets{{target.cpu_features, kernels.names}};
  for (const KernelVariant& variant : variants) {
    KernelUnits more = group_kernels(variant.kernels,
                                     variant.target,
                                     "_" + std::to_string(sets.size()) + "_",
                                     schedule.kernels.size());
    ensure(std::ranges::equal(
               variant.kernels, all_kernels, {}, &Kernel::checks_indices, &Kernel::checks_indices),
           "the plan depends on the instruction set");
    std::ranges::move(more.units, std::back_inserter(build.units));
    sets.push_back({variant.target.cpu_features, std::move(more.names)});
  }
  ProgramText text = emit_program(program, fold ? &*fold : nullptr, sets, description);
  build.units.insert(build.units.begin(), {"model", text.source, wrapper_flags()});
  build.openmp = uses_openmp(all_kernels);
  build.archive =
      options.runtime_archive.empty() ? find_runtime_archive() : options.runtime_archive;
  build.ready = precompiled_kernels_beside(build.archive);
  build.torch_library_dir = options.torch_library_dir;
  report.emit_ms = milliseconds_since(start);

  const Compiler& compiler = find_compiler(options.compiler, options.compiler_timeout);
  Workspace workspace(options.keep_source);
  workspace.keep(build.units);
  if (!options.keep_source.empty() || options.record_kernels) {
    report.plan = describe_plan(program, kernels.names, build.units, compiler.command);
  }
  if (!options.keep_source.empty()) {
    write_file_atomically(options.keep_source / "graph.kir", ir::print(graph));
    if (folding != nullptr) {
      write_file_atomically(options.keep_source / "fold.kir", ir::print(folding->graph));
      const std::vector<std::string> names(
          kernels.names.begin() + static_cast<std::ptrdiff_t>(schedule.kernels.size()),
          kernels.names.end());
      write_file_atomically(options.keep_source / "fold-plan.json",
                            describe_plan(*fold, names, build.units, compiler.command));
    }
    write_file_atomically(options.keep_source / "plan.json", report.plan);
  }
  build.directory = workspace.path();
  try {
    const BuildReport built = build_library(compiler, build, library, options);
    report.objects_reused = built.objects_reused;
    report.compile_ms = built.compile_ms;
    report.link_ms = built.link_ms;
  } catch (const Error& error) {
    workspace.keep_sources_if_named(error.what());
    throw;
  }
  report.extern_nodes = write_extern_nodes(text.extern_nodes, library);
  report.source = std::move(text.source);

  report.kernels = kernels.distinct;
  for (const Step& step : schedule.steps) {
    ++(std::holds_alternative<KernelCall>(step) ? report.kernel_calls : report.extern_calls);
  }
  report.arena_bytes = program.arena_bytes;
  report.library_bytes = fs::file_size(library);
  KILN_LOG(kInfo,
           "codegen",
           graph.name() << ": " << report.kernels << " kernels, " << report.kernel_calls
                        << " calls, " << report.extern_calls << " extern; compiled in "
                        << report.compile_ms << " ms, linked in " << report.link_ms << " ms");
  return report;
}

}  // namespace kiln::codegen
