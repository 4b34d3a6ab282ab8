#include "driver/compile_schedule.hpp"

#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "driver/describe_plan.hpp"
#include "driver/generate_source.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/log.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/ir/print.hpp"
#include "program/program.hpp"
#include "toolchain/build.hpp"
#include "toolchain/clock.hpp"
#include "toolchain/precompiled_kernels.hpp"

namespace kiln::codegen {
namespace fs = std::filesystem;

namespace {

// Whether a compile writes files of this name where it keeps its source.
bool is_kept_file(const fs::path& file) {
  static const std::set<std::string> names = {
      "model.cpp", "graph.kir", "plan.json", "fold.kir", "fold-plan.json"};
  const std::string stem = file.stem().string();
  constexpr std::string_view kKernels = "kernels";
  constexpr std::string_view kDigits = "0123456789";
  const bool has_kernels =  // "kernels0", "kernels_1_0"
      stem.starts_with(kKernels) && kDigits.find(stem.back()) != std::string_view::npos &&
      stem.find_first_not_of("0123456789_", kKernels.size()) == std::string::npos;
  return names.contains(file.filename().string()) ||
         (has_kernels && (file.extension() == ".cpp" || file.extension() == ".cu"));
}

// The sources and objects of a build. If the build fails with a message that names the directory,
// the sources stay there. With `keep_source` they are kept in any case.
class Workspace {
 public:
  explicit Workspace(const fs::path& keep_source)
      : keep_source_(keep_source), directory_("kiln-codegen") {}

  [[nodiscard]] const fs::path& path() const { return directory_.path(); }

  void keep(const std::vector<Unit>& units) {
    if (!keep_source_.empty()) {
      remove_kept_source(keep_source_);  // Of another program, which would seem part of this one.
      for (const Unit& unit : units) {
        write_file_atomically(keep_source_ / (unit.name + ".cpp"), unit.source);
        if (!unit.images.empty()) {
          write_file_atomically(keep_source_ / (unit.name + ".cu"), unit.images[0].source);
        }
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

// Loaders look for a file of this name, so a model that needs none must have none.
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

void count_calls(const Schedule& schedule, Report& report) {
  for (const Step& step : schedule.steps) {
    ++(std::holds_alternative<KernelCall>(step) ? report.kernel_calls : report.extern_calls);
  }
}

void log_compiled(const ir::Graph& graph, const Report& report) {
  KILN_LOG(kInfo,
           "codegen",
           graph.name() << ": " << report.kernels << " kernels, " << report.kernel_calls
                        << " calls, " << report.extern_calls << " extern; compiled in "
                        << report.compile_ms << " ms, linked in " << report.link_ms << " ms");
}

void keep_graph(const fs::path& folder,
                const char* graph_file,
                const ir::Graph& graph,
                const char* plan_file,
                const std::string& plan) {
  write_file_atomically(folder / graph_file, ir::print(graph));
  write_file_atomically(folder / plan_file, plan);
}

}  // namespace

void remove_kept_source(const fs::path& folder) {
  std::vector<fs::path> kept;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failure)) {
    if (is_kept_file(entry.path())) {
      kept.push_back(entry.path());
    }
  }
  for (const fs::path& file : kept) {
    fs::remove(file, failure);
  }
}

Report compile_schedule(const ScheduledProgram& scheduled,
                        const ScheduledProgram* folding,
                        const Backend& backend,
                        const fs::path& library,
                        const Options& options) {
  Report report;
  const Clock::time_point start = Clock::now();
  GeneratedSource source = generate_source(scheduled, folding, backend, options);
  report.kernels = source.distinct_kernels;
  report.emit_ms = milliseconds_since(start);
  BuildPlan& build = source.build;
  build.archive = options.runtime_archive.empty() ? find_runtime_archive(backend.device())
                                                  : options.runtime_archive;
  build.ready = precompiled_kernels_beside(build.archive);
  build.torch_library_dir = options.torch_library_dir;

  const Compiler& compiler = find_compiler(options.compiler, options.compiler_timeout);
  Workspace workspace(options.keep_source);
  workspace.keep(build.units);
  if (!options.keep_source.empty() || options.record_kernels) {
    report.plan =
        describe_plan(source.program, source.names, source.of_first_target(), compiler.command);
  }
  if (!options.keep_source.empty()) {
    keep_graph(options.keep_source, "graph.kir", scheduled.graph, "plan.json", report.plan);
    if (source.fold) {
      const std::vector<std::string> fold_names(
          source.names.begin() + static_cast<std::ptrdiff_t>(scheduled.kernels.kernels().size()),
          source.names.end());
      keep_graph(
          options.keep_source,
          "fold.kir",
          folding->graph,
          "fold-plan.json",
          describe_plan(*source.fold, fold_names, source.of_first_target(), compiler.command));
    }
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
  report.extern_nodes = write_extern_nodes(source.extern_nodes, library);
  report.source = std::move(build.units[0].source);

  count_calls(scheduled.schedule, report);
  report.arena_bytes = source.program.arena_bytes;
  report.library_bytes = fs::file_size(library);
  log_compiled(scheduled.graph, report);
  return report;
}

}  // namespace kiln::codegen
