#include "model_library.hpp"

#include <torch/version.h>

#include <algorithm>
#include <optional>
#include <span>

#include "kiln/base/error.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/codegen/target.hpp"
#include "kiln/container_runtime/runner.hpp"
#include "kiln/ir/canonical.hpp"
#include "stopwatch.hpp"

namespace kiln {
namespace {

// Outputs that have a value. The others (an input without a gradient) are no outputs of the
// library.
ir::Graph without_absent_outputs(ir::Graph graph) {
  std::erase_if(graph.outputs(), [](const ir::Output& output) { return !output.value.valid(); });
  return graph;
}

}  // namespace

std::shared_ptr<autograd_cache::Cache> open_cache(const CompileOptions& options) {
  if (!options.use_cache) {
    return nullptr;
  }
  autograd_cache::CacheOptions cache;
  if (!options.cache_directory.empty()) {
    cache.directory = options.cache_directory;
  }
  auto opened = std::make_shared<autograd_cache::Cache>(cache);
  return opened->enabled() ? opened : nullptr;
}

codegen::Options codegen_options(const CompileOptions& options, autograd_cache::Cache* cache) {
  codegen::Options result;
  result.isa = options.isa;
  result.check_inputs = options.check_inputs;
  result.keep_source = options.keep_source;
  if (options.progress) {
    result.progress = [progress = options.progress](const codegen::Progress& step) {
      progress({step.stage, step.done, step.total});
    };
  }
  if (cache != nullptr && cache->store() != nullptr) {
    result.objects.find = [cache](const Digest& digest) -> std::optional<std::string> {
      const auto blob = cache->find_object(digest);
      if (!blob) {
        return std::nullopt;
      }
      return std::string(reinterpret_cast<const char*>(blob->bytes().data()), blob->bytes().size());
    };
    result.objects.put = [cache](const Digest& digest, std::string_view object) {
      cache->put_object(digest, std::as_bytes(std::span(object.data(), object.size())));
    };
  }
  return result;
}

autograd_cache::Key key_of(const ir::Graph& graph,
                           const codegen::Options& options,
                           const std::string& identity) {
  const codegen::Target target = codegen::resolve_target(options.isa);
  // Where the constants lie, not what they are: the values are appended to the library afterwards.
  std::string constants;
  for (const std::uint64_t offset : codegen::weight_offsets(options.constants)) {
    constants += std::to_string(offset) + " ";
  }
  return autograd_cache::KeyBuilder()
      .add("kiln", "2")
      .add("libtorch", TORCH_VERSION)
      .add("compiler", codegen::compiler_version(options))
      .add("target",
           target.isa + " " + target.compiler_flags + " " + std::to_string(target.vector_bytes))
      .add("options",
           std::string(options.check_inputs ? "checked" : "unchecked") +
               (options.bind_constants ? " bound" : ""))
      .add("call", options.in_spec + "\n" + options.out_spec)
      .add("identity", identity)
      .add("constants", constants)
      .add("graph", ir::canonical_bytes(graph))
      .build();
}

void store(autograd_cache::Cache& cache,
           const autograd_cache::Key& key,
           const std::filesystem::path& library,
           const codegen::Report& report) {
  if (report.extern_nodes.empty()) {
    cache.put(
        key, {.guards = {}, .blobs = {{"source", report.source}}, .files = {{"library", library}}});
  } else {
    cache.bypass("operators that only the host's proxy executor can call");
  }
}

autograd_dispatch::CompiledGraph compile_graph(const ir::Graph& graph,
                                               const CompileOptions& options,
                                               autograd_cache::Cache* cache,
                                               GraphReport& report) {
  report.name = graph.name();
  report.nodes = static_cast<int>(graph.nodes().size());
  const ir::Graph complete = without_absent_outputs(graph);
  codegen::Options generator = codegen_options(options, cache);
  generator.check_inputs = false;  // The guards have checked them.

  std::filesystem::path library;
  std::optional<autograd_cache::Key> key;
  if (cache != nullptr) {
    key = key_of(complete, generator, options.identity);
    if (const auto entry = cache->find(*key)) {
      library = entry->files.at("library");
      report.cache_hit = true;
    } else if (const auto explanation = cache->explain_quickly(*key);
               explanation && !explanation->differences.empty()) {
      report.cache_miss_reason = explanation->differences.front().name;
    }
  }

  std::optional<TemporaryDirectory> scratch;
  if (library.empty()) {
    const Stopwatch watch;
    scratch.emplace("kiln-jit");
    library = scratch->path() / (graph.name() + ".so");
    const codegen::Report done = codegen::compile(complete, library, generator);
    report.kernels = done.kernels;
    report.extern_calls = done.extern_calls;
    report.compile_ms = watch.milliseconds();
    if (key) {
      store(*cache, *key, library, done);
    }
  }

  const Stopwatch watch;
  if (options.progress) {
    options.progress({"load", 0, 1});
  }
  const auto runner = std::make_shared<container_runtime::Runner>(library);
  report.load_ms = watch.milliseconds();

  std::vector<bool> present;
  for (const ir::Output& output : graph.outputs()) {
    if (output.kind != ir::OutputKind::kMutation) {
      present.push_back(output.value.valid());
    }
  }
  if (std::find(present.begin(), present.end(), false) == present.end()) {
    return [runner](autograd_dispatch::Tensors inputs) {
      return runner->run_boxed(std::move(inputs));
    };
  }
  return [runner, present](autograd_dispatch::Tensors inputs) {
    autograd_dispatch::Tensors computed = runner->run_boxed(std::move(inputs));
    autograd_dispatch::Tensors outputs(present.size());
    for (std::size_t i = 0, next = 0; i < present.size(); ++i) {
      if (present[i]) {
        outputs[i] = std::move(computed[next++]);
      }
    }
    return outputs;
  };
}

}  // namespace kiln
