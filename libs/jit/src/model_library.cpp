#include "kiln/jit/model_library.hpp"

#include <ATen/Context.h>
#include <torch/version.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>

#include "graph_device.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/container_runtime/runner.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/retarget.hpp"
#include "kiln/jit/cache_use.hpp"
#include "kiln/jit/dump.hpp"
#include "kiln/jit/stopwatch.hpp"

namespace kiln {
namespace fs = std::filesystem;

namespace {

// Outputs that have a value. The others (an input without a gradient) are not outputs of the
// library.
ir::Graph without_absent_outputs(ir::Graph graph) {
  std::erase_if(graph.outputs(), [](const ir::Output& output) { return !output.value.valid(); });
  return graph;
}

// By output that is not an update: '1' if it has a value.
std::string present_outputs(const ir::Graph& graph) {
  std::string present;
  for (const ir::Output& output : graph.outputs()) {
    if (output.kind != ir::OutputKind::kMutation) {
      present += output.value.valid() ? '1' : '0';
    }
  }
  return present;
}

// A function of the library's outputs as one of the graph's: absent ones are undefined tensors.
autograd_dispatch::CompiledGraph with_absent_outputs(const std::string& present,
                                                     autograd_dispatch::CompiledGraph run) {
  if (present.find('0') == std::string::npos) {
    return run;
  }
  return [run = std::move(run), present](autograd_dispatch::Tensors inputs) {
    autograd_dispatch::Tensors computed = run(std::move(inputs));
    autograd_dispatch::Tensors outputs(present.size());
    for (std::size_t i = 0, next = 0; i < present.size(); ++i) {
      if (present[i] == '1') {
        outputs[i] = std::move(computed[next++]);
      }
    }
    return outputs;
  };
}

autograd_dispatch::CompiledGraph load_library(const ModelLibrary& library,
                                              const GraphDevice& device,
                                              const CompileOptions& options,
                                              GraphReport& report) {
  const Stopwatch watch;
  if (options.progress) {
    options.progress({Stage::kLoad, 0, 1});
  }
  const auto runner = std::make_shared<container_runtime::Runner>(
      library.path,
      container_runtime::RunnerOptions{
          .device = device.name,
          .cuda_graphs = device.name.empty() ? CudaGraphs::kOff : options.cuda_graphs});
  report.load_ms = watch.milliseconds();
  return [runner, device](autograd_dispatch::Tensors inputs) {
    for (const std::uint32_t number : device.numbers) {
      inputs.at(number) = inputs.at(number).to(c10::Device(device.name));
    }
    return runner->run_boxed(std::move(inputs));
  };
}

// "3 7": positions of inputs, as a cache entry keeps them.
std::string text_of(const std::vector<std::uint32_t>& positions) {
  std::string text;
  for (const std::uint32_t position : positions) {
    text += (text.empty() ? "" : " ") + std::to_string(position);
  }
  return text;
}

GraphDevice device_in(const autograd_cache::Entry& entry) {
  GraphDevice device{.name = entry.blobs.at("device"), .numbers = {}};
  std::istringstream numbers(entry.blobs.at("numbers"));
  device.numbers.assign(std::istream_iterator<std::uint32_t>(numbers), {});
  return device;
}

autograd_cache::Entry entry_of(const ModelLibrary& library,
                               std::string guards,
                               const GraphReport& report) {
  autograd_cache::Entry entry{.guards = std::move(guards),
                              .blobs = {{"source", library.source},
                                        {"name", report.name},
                                        {"nodes", std::to_string(report.nodes)},
                                        {"kernels", std::to_string(report.kernels)},
                                        {"extern_calls", std::to_string(report.extern_calls)}},
                              .files = {{"library", library.path}}};
  if (!library.plan.empty()) {
    entry.blobs.emplace("plan", library.plan);
  }
  if (!library.folding.empty()) {
    entry.blobs.emplace("folding", library.folding);
  }
  if (!library.extern_nodes.empty()) {
    entry.blobs.emplace("extern_nodes", read_file(library.extern_nodes));
  }
  return entry;
}

Stage stage_of(const codegen::Progress& step) {
  switch (step.stage) {
    case codegen::Stage::kSchedule: return Stage::kSchedule;
    case codegen::Stage::kKernels: return Stage::kKernels;
    case codegen::Stage::kLink: break;
  }
  return Stage::kLink;
}

}  // namespace

codegen::Options codegen_options(const CompileOptions& options, autograd_cache::Cache* cache) {
  codegen::Options result;
  result.isa = options.isa;
  result.arch = options.arch;
  result.check_indices_now = options.check_indices_now;
  result.deterministic = at::globalContext().deterministicAlgorithms();
  result.check_inputs = options.check_inputs;
  result.record_kernels = options.profile;
  result.winograd = options.winograd;
  result.libtorch = {TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR};
  result.keep_source = options.keep_source;
  if (options.progress) {
    result.progress = [progress = options.progress](const codegen::Progress& step) {
      progress({stage_of(step), step.done, step.total});
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

codegen::Options graph_options(const CompileOptions& options, autograd_cache::Cache* cache) {
  codegen::Options result = codegen_options(options, cache);
  result.check_inputs = false;
  return result;
}

ModelLibrary library_of(const autograd_cache::Entry& entry, const fs::path& scratch) {
  ModelLibrary library{.path = entry.files.at("library"),
                       .extern_nodes = {},
                       .source = entry.blobs.at("source"),
                       .entry = entry};
  for (const auto& [name, text] :
       {std::pair("plan", &library.plan), std::pair("folding", &library.folding)}) {
    if (const auto found = entry.blobs.find(name); found != entry.blobs.end()) {
      *text = found->second;
    }
  }
  if (const auto nodes = entry.blobs.find("extern_nodes"); nodes != entry.blobs.end()) {
    const fs::path link = scratch / "cached.so";
    fs::create_symlink(library.path, link);
    library.path = link;
    library.extern_nodes = scratch / "cached.json";
    write_file_atomically(library.extern_nodes, nodes->second, Durability::kEventual);
  }
  return library;
}

void read_report(const autograd_cache::Entry& entry, GraphReport& report) {
  report.cache_hit = true;
  report.name = entry.blobs.at("name");
  report.nodes = std::stoi(entry.blobs.at("nodes"));
  report.kernels = std::stoi(entry.blobs.at("kernels"));
  report.extern_calls = std::stoi(entry.blobs.at("extern_calls"));
}

ModelLibrary obtain_library(const ir::Graph& graph,
                            const codegen::Options& generator,
                            const CompileOptions& options,
                            autograd_cache::Cache* cache,
                            const fs::path& scratch,
                            GraphReport& report) {
  report.name = graph.name();
  report.nodes = static_cast<int>(graph.nodes().size());
  ModelLibrary library{.path = scratch / "model.so", .extern_nodes = {}, .source = {}};
  const auto build = [&] {
    const Stopwatch watch;
    codegen::Report done = codegen::compile(graph, library.path, generator);
    library.extern_nodes = done.extern_nodes;
    library.source = std::move(done.source);
    library.folding = done.folding ? ir::print(*done.folding) : "";
    library.plan = generator.record_kernels ? std::move(done.plan) : "";
    report.kernels = done.kernels;
    report.extern_calls = done.extern_calls;
    report.compile_ms = watch.milliseconds();
  };
  if (cache != nullptr) {
    if (const auto reason = reason_not_to_cache(graph)) {
      cache->bypass(*reason);
      cache = nullptr;
    }
  }
  if (cache == nullptr) {
    build();
    return library;
  }

  const autograd_cache::Key key = key_of(graph, generator, options.identity);
  const auto make = [&] {
    if (const auto explanation = cache->explain_quickly(key)) {
      report.cache_miss_reason = explanation->differences.front().name;
    }
    build();
    return entry_of(library, guards_of(graph, generator), report);
  };
  autograd_cache::Cache::Obtained obtained = cache->obtain(
      key, [&](std::string_view guards) { return guards_hold(guards, generator); }, make);
  if (!obtained.hit) {
    library.entry = std::move(obtained.entry);
    return library;
  }
  read_report(obtained.entry, report);
  return library_of(obtained.entry, scratch);
}

LoadedGraph compile_graph(const ir::Graph& graph,
                          const CompileOptions& options,
                          autograd_cache::Cache* cache,
                          GraphReport& report) {
  const GraphDevice device = device_of_graph(graph);
  // Neither a library nor its key is tied to one of several GPUs.
  const ir::Graph complete = without_absent_outputs(
      device.name.empty() ? graph : ir::retarget(graph, ir::DeviceType::kCuda));
  codegen::Options generator = graph_options(options, cache);
  const std::optional<Dump> dump = Dump::begin(complete);
  if (dump) {
    generator.keep_source = dump->source();
  }
  LoadedGraph loaded;
  const auto load = [&](autograd_cache::Cache* source) {
    const TemporaryDirectory scratch("kiln-jit");
    ModelLibrary library =
        obtain_library(complete, generator, options, source, scratch.path(), report);
    loaded.run = load_library(library, device, options, report);
    loaded.entry = std::move(library.entry);
  };
  try {
    load(cache);
  } catch (const Error&) {
    if (!report.cache_hit) {
      throw;
    }
    // Another process may evict a library between the moment it is found and the moment it is
    // loaded.
    report = {};
    load(nullptr);
  }

  if (dump) {
    dump->write_report(report);
    dump->copy_source_to(options.keep_source);
    loaded.run = [run = std::move(loaded.run),
                  dump = *dump,
                  first = std::make_shared<std::once_flag>()](autograd_dispatch::Tensors inputs) {
      std::call_once(*first, [&] { dump.write_inputs(inputs); });
      return run(std::move(inputs));
    };
  }
  const std::string present = present_outputs(graph);
  loaded.run = with_absent_outputs(present, std::move(loaded.run));
  if (loaded.entry) {
    loaded.entry->blobs.insert_or_assign("present", present);
    loaded.entry->blobs.insert_or_assign("device", device.name);
    loaded.entry->blobs.insert_or_assign("numbers", text_of(device.numbers));
  }
  return loaded;
}

autograd_dispatch::CompiledGraph load_graph(const autograd_cache::Entry& entry,
                                            const CompileOptions& options,
                                            GraphReport& report) {
  const TemporaryDirectory scratch("kiln-jit");
  read_report(entry, report);
  autograd_dispatch::CompiledGraph run =
      load_library(library_of(entry, scratch.path()), device_in(entry), options, report);
  return with_absent_outputs(entry.blobs.at("present"), std::move(run));
}

}  // namespace kiln
