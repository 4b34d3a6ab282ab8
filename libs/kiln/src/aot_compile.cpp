#include <ATen/Functions.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "archive_key.hpp"
#include "archive_weights.hpp"
#include "artifact.hpp"
#include "declared_sizes.hpp"
#include "folded_constants.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/log.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/generator_input.hpp"
#include "kiln/export/archive.hpp"
#include "kiln/ir/retarget.hpp"
#include "kiln/jit/cache_use.hpp"
#include "kiln/jit/dump.hpp"
#include "kiln/jit/model_library.hpp"
#include "kiln/jit/stopwatch.hpp"
#include "kiln/program.hpp"

namespace kiln {
namespace fs = std::filesystem;

namespace {

// Sample inputs travel in the package, so that `kiln run` has something to run on.
std::string pickled_samples(const ExportedProgram& program) {
  constexpr std::size_t kLargest = 64 << 20;
  std::size_t bytes = 0;
  c10::List<at::Tensor> samples;
  for (const at::Tensor& sample : program.sample_inputs) {
    bytes += sample.nbytes();
    samples.push_back(sample.detach().clone());
  }
  if (samples.empty() || bytes > kLargest) {
    return {};
  }
  const std::vector<char> pickled = torch::jit::pickle_save(samples);
  return {pickled.begin(), pickled.end()};
}

std::string join(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : separator) + part;
  }
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

void require_supported(const fs::path& out, const CompileOptions& options) {
  if (out.extension() != ".so" && out.extension() != ".pt2") {
    throw Error(ErrorCode::kInvalidArgument, "'" + out.string() + "' ends in neither .pt2 nor .so");
  }
  if (!options.device.empty() && options.device != "cpu" && options.device != "cuda") {
    throw Error(ErrorCode::kInvalidArgument,
                "there is no device '" + options.device + "' to compile for: use cpu or cuda");
  }
  if (options.instances > container_runtime::kMostInstances) {
    throw Error(ErrorCode::kInvalidArgument,
                "a package cannot ask for " + std::to_string(options.instances) + " instances; " +
                    std::to_string(container_runtime::kMostInstances) + " is the most");
  }
  if (options.dynamic) {
    throw Error(
        ErrorCode::kUnsupported,
        "CompileOptions::dynamic is for functions; the sizes of a package vary as its program "
        "was exported (ExportOptions::dynamic_dims, an archive's Dims)");
  }
}

void require_another_file(const fs::path& archive, const fs::path& out) {
  std::error_code absent;
  if (fs::equivalent(archive, out, absent)) {
    throw Error(ErrorCode::kInvalidArgument,
                out.string() + " is the archive itself; give the package another name");
  }
}

ir::DeviceType device_of(const CompileOptions& options) {
  return options.device == "cuda" ? ir::DeviceType::kCuda : ir::DeviceType::kCpu;
}

const char* name_of(ir::DeviceType device) {
  return device == ir::DeviceType::kCuda ? "cuda" : "cpu";
}

codegen::Options generator_for(const CompileOptions& options, autograd_cache::Cache* cache) {
  codegen::Options generator = codegen_options(options, cache);
  generator.bind_constants = true;
  generator.store_folded = true;
  return generator;
}

Artifact compile_program(const ExportedProgram& program,
                         const Weights& weights,
                         const CompileOptions& options,
                         autograd_cache::Cache* cache,
                         const fs::path& scratch,
                         GraphReport& report) {
  codegen::Options generator = generator_for(options, cache);
  generator.in_spec = input_spec_of(program);
  generator.out_spec = program.out_spec;
  generator.constants = weights.data;
  const std::optional<Dump> dump = Dump::begin(program.graph);
  if (dump) {
    generator.keep_source = dump->source();
    if (!program.sample_inputs.empty()) {
      dump->write_inputs(program.graph_inputs(program.sample_inputs));
    }
  }
  ir::Graph graph = with_all_outputs(program);
  const ir::DeviceType here = codegen::device_of(graph);
  const ir::DeviceType wanted = options.device.empty() ? here : device_of(options);
  if (wanted != here) {
    graph = ir::retarget(graph, wanted);
  }
  ModelLibrary library = obtain_library(graph, generator, options, cache, scratch, report);
  if (dump) {
    dump->write_report(report);
    dump->copy_source_to(options.keep_source);
  }
  report.specialisations = program.specialisations;
  return {std::move(library),
          weights.data,
          pickled_samples(program),
          join(program.specialisations, "\n"),
          declared_sizes(program.graph),
          name_of(wanted)};
}

// Once for each compile, found in the cache or not.
void warn_of_specialisations(const fs::path& out, const std::vector<std::string>& specialisations) {
  if (!specialisations.empty()) {
    KILN_LOG(kWarning,
             "kiln",
             out.string() << " does not take all sizes that the program lets vary: "
                          << join(specialisations, "; "));
  }
}

// A library may have a file next to it; a package does not.
void note_product(autograd_cache::Cache& cache,
                  const autograd_cache::Key& key,
                  const fs::path& out) {
  if (out.extension() == ".pt2") {
    cache.note_product(out, key);
  }
}

// False if there is none, or if it vanishes while it is read.
bool write_cached_artifact(autograd_cache::Cache& cache,
                           const autograd_cache::Key& key,
                           const codegen::Options& generator,
                           const fs::path& archive,
                           const fs::path& out,
                           const CompileOptions& options,
                           GraphReport& report) {
  const auto entry =
      cache.find(key, [&](std::string_view guards) { return guards_hold(guards, generator); });
  if (!entry) {
    return false;
  }
  const auto specialisations = entry->blobs.find("specialisations");
  if (specialisations == entry->blobs.end()) {
    return false;
  }
  read_report(*entry, report);
  report.specialisations = lines_of(specialisations->second);
  if (cache.is_product(out, key)) {
    return true;  // A repeated build: there is nothing to do.
  }
  const TemporaryDirectory scratch("kiln-aot");
  try {
    const ArchivedWeights weights(archive, entry->blobs.at("weights"));
    write_artifact({library_of(*entry, scratch.path()),
                    weights.constants(),
                    entry->blobs.at("sample_inputs"),
                    specialisations->second,
                    entry->blobs.at("sizes"),
                    name_of(device_of(options))},
                   out,
                   options.instances);
  } catch (const std::exception& failure) {
    KILN_LOG(kInfo, "kiln", "ignoring an unusable cache entry: " << failure.what());
    report = {};
    return false;
  }
  note_product(cache, key, out);
  return true;
}

}  // namespace

fs::path aot_compile(const ExportedProgram& program,
                     const fs::path& out,
                     CompileOptions options,
                     GraphReport* report) {
  require_supported(out, options);
  const std::shared_ptr<autograd_cache::Cache> cache = open_cache(options);
  GraphReport done;
  const TemporaryDirectory scratch("kiln-aot");
  const ExportedProgram dispatched = exporter::run_dispatch(program);
  const Weights weights = weights_of(dispatched);
  StreamingWeightsWriter ahead(out, weights.data);
  write_artifact(compile_program(dispatched, weights, options, cache.get(), scratch.path(), done),
                 out,
                 options.instances,
                 &ahead);
  warn_of_specialisations(out, program.specialisations);
  if (report != nullptr) {
    *report = std::move(done);
  }
  return out;
}

fs::path aot_compile(const fs::path& archive,
                     const fs::path& out,
                     CompileOptions options,
                     GraphReport* report) {
  require_supported(out, options);
  require_another_file(archive, out);
  if (options.device.empty()) {
    options.device = name_of(exporter::device_of_archive(archive));
  }
  const std::shared_ptr<autograd_cache::Cache> cache = open_cache(options);
  const codegen::Options generator = generator_for(options, cache.get());
  GraphReport done;
  std::optional<autograd_cache::Key> key;
  if (cache) {
    key = key_of_archive(cache->digest_of_file(archive), options, generator, device_of(options));
  }
  if (!key || !write_cached_artifact(*cache, *key, generator, archive, out, options, done)) {
    const TemporaryDirectory scratch("kiln-aot");
    if (options.progress) {
      options.progress({Stage::kTrace, 0, 1});
    }
    const Stopwatch watch;
    const ExportedProgram program = load_program(archive);
    done.trace_ms = watch.milliseconds();
    done.traces = program.traces;
    const Weights weights = weights_of(program);
    StreamingWeightsWriter ahead(out, weights.data);
    const Artifact artifact =
        compile_program(program, weights, options, cache.get(), scratch.path(), done);
    const auto places =
        artifact.library.entry ? locate_weights(archive, artifact.constants) : std::nullopt;
    if (places) {
      autograd_cache::Entry entry = *artifact.library.entry;
      entry.blobs.emplace("sample_inputs", artifact.sample_inputs);
      entry.blobs.emplace("weights", *places);
      entry.blobs.emplace("specialisations", artifact.specialisations);
      entry.blobs.emplace("sizes", artifact.sizes);
      cache->put(*key, entry);
    }
    write_artifact(artifact, out, options.instances, &ahead);
    if (places) {
      note_product(*cache, *key, out);
    }
  }
  warn_of_specialisations(out, done.specialisations);
  if (report != nullptr) {
    *report = std::move(done);
  }
  return out;
}

}  // namespace kiln
