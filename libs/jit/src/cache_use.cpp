#include "kiln/jit/cache_use.hpp"

#include <torch/version.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <tuple>
#include <vector>

#include "kiln/autograd_cache/identity.hpp"
#include "kiln/base/cpu_features.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/codegen/target.hpp"
#include "kiln/ir/canonical.hpp"
#include "kiln/jit/close_caches.hpp"
#include "kiln/jit/dump.hpp"

namespace kiln {

/// Of the libraries that generate code, as they were when this one was built.
extern const char* const kGeneratorDigest;

namespace {

// Operators of these come with libtorch, whose version is in the key, or are ours.
bool is_built_in(std::string_view library) {
  constexpr std::array<std::string_view, 9> kLibraries = {
      "aten", "prim", "prims", "quantized", "_quantized", "mkldnn", "mkl", "onednn", "kiln"};
  return std::find(kLibraries.begin(), kLibraries.end(), library) != kLibraries.end();
}

// "mylib::scale" of "mylib.scale.default", nested graphs included.
std::set<std::string> custom_operators(const ir::Graph& graph) {
  std::set<std::string> names;
  for (const ir::Graph& nested : graph.subgraphs()) {
    names.merge(custom_operators(nested));
  }
  for (const ir::Node& node : graph.nodes()) {
    const std::size_t first = node.target.find('.');
    const std::size_t second = node.target.find('.', first + 1);
    const std::string library = node.target.substr(0, first);
    if (first != std::string::npos && !is_built_in(library)) {
      names.insert(library + "::" + node.target.substr(first + 1, second - first - 1));
    }
  }
  return names;
}

// The code that is linked into every model: another build of Kiln makes other models.
std::string runtime_digest(const codegen::Options& options, ir::DeviceType device) {
  static std::mutex mutex;
  static std::map<std::filesystem::path, std::string> known;
  std::filesystem::path archive = options.runtime_archive;
  try {
    if (archive.empty()) {
      archive = codegen::find_runtime_archive(device);
    }
    const std::lock_guard lock(mutex);
    std::string& text = known[archive];
    if (text.empty()) {
      text = digest(read_file(archive)).hex();
    }
    return text;
  } catch (const Error&) {
    return "none";  // Nothing can be compiled here; what was compiled elsewhere can be run.
  }
}

struct OpenCaches {
  using Settings =
      std::tuple<std::filesystem::path, autograd_cache::Mode, std::string, std::string>;
  std::mutex mutex;
  std::map<Settings, std::shared_ptr<autograd_cache::Cache>> by_settings;
};

OpenCaches& open_caches() {
  static const Digest first = digest("");  // The caches below must be closed before OpenSSL is.
  static_cast<void>(first);
  static OpenCaches caches;
  return caches;
}

}  // namespace

void close_caches() {
  OpenCaches& caches = open_caches();
  const std::lock_guard lock(caches.mutex);
  caches.by_settings.clear();
}

std::shared_ptr<autograd_cache::Cache> open_cache(const CompileOptions& options) {
  // What is found there was generated before, and leaves no source.
  if (!options.use_cache || dump_wanted() || !options.keep_source.empty()) {
    return nullptr;
  }
  autograd_cache::CacheOptions wanted;
  if (!options.cache_directory.empty()) {
    wanted.directory = options.cache_directory;
  }
  OpenCaches& caches = open_caches();
  const std::lock_guard lock(caches.mutex);
  auto& cache = caches.by_settings[{wanted.directory, wanted.mode, wanted.remote, wanted.secret}];
  if (!cache) {
    cache = std::make_shared<autograd_cache::Cache>(wanted);
  }
  return cache->enabled() ? cache : nullptr;
}

autograd_cache::KeyBuilder environment_key(const codegen::Options& options,
                                           const std::string& identity,
                                           ir::DeviceType device) {
  std::string targets;
  if (device == ir::DeviceType::kCuda) {
    targets = codegen::nvrtc_stamp(options);
    for (const std::string& architecture : codegen::resolve_architectures(options.arch)) {
      targets += " " + architecture;
    }
  } else {
    for (const codegen::Target& target : codegen::resolve_targets(options.isa)) {
      targets += (targets.empty() ? "" : ", ") + target.isa + " " + target.compiler_flags + " " +
                 std::to_string(target.vector_bytes);
    }
  }
  autograd_cache::KeyBuilder builder;
  builder.add("kiln", "4")
      .add("generator", kGeneratorDigest)
      .add("runtime", runtime_digest(options, device))
      .add("libtorch", TORCH_VERSION)
      .add("target", targets)
      .add("options",
           std::string(options.check_inputs ? "checked" : "unchecked") +
               (options.bind_constants ? " bound" : "") +
               (options.record_kernels ? " recorded" : "") + (options.winograd ? " winograd" : "") +
               (options.store_folded ? " folded" : "") +
               (options.check_indices_now ? " waits" : "") +
               (options.deterministic ? " deterministic" : ""))
      .add("identity", identity);
  return builder;
}

autograd_cache::Key key_of(const ir::Graph& graph,
                           const codegen::Options& options,
                           const std::string& identity) {
  // Where the constants lie, not what they are: the values are appended to the library afterwards.
  std::string constants;
  for (const std::uint64_t offset : codegen::weight_offsets(options.constants)) {
    constants += std::to_string(offset) + " ";
  }
  // A package shows the names of its inputs and sizes to its users; a function does not, and so
  // equal layers of one model are one.
  return environment_key(options, identity, codegen::device_of(graph))
      .add("call", options.in_spec + "\n" + options.out_spec)
      .add("constants", constants)
      .add("graph",
           ir::canonical_bytes(
               graph,
               {.user_names = options.bind_constants, .symbol_names = options.bind_constants}))
      .build();
}

// One line each: "stamp …", "version …", "features …" (of the CPU), "operator NAME IDENTITY".
std::string guards_of(const ir::Graph& graph, const codegen::Options& options) {
  std::string guards = "stamp " + codegen::compiler_stamp(options).value_or("") + "\nversion " +
                       codegen::compiler_version(options) + "\n";
  if (codegen::device_of(graph) == ir::DeviceType::kCpu) {
    // Other names stand for the same everywhere. Of several a model needs the first.
    const codegen::Target target = codegen::resolve_targets(options.isa).front();
    if (target.isa == "native" && !target.cpu_features.empty()) {
      guards += "features " + target.cpu_features + "\n";
    }
  }
  for (const std::string& name : custom_operators(graph)) {
    guards += "operator " + name + " " + autograd_cache::identity_of(name).value_or("") + "\n";
  }
  return guards;
}

bool guards_hold(std::string_view guards, const codegen::Options& options) {
  const std::optional<std::string> here = codegen::compiler_stamp(options);
  bool same_compiler = !here;
  bool same_operators = true;
  std::istringstream lines{std::string(guards)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    const std::string kind = line.substr(0, space);
    const std::string rest = line.substr(space + 1);
    if (kind == "stamp") {
      same_compiler = same_compiler || rest == *here;
    } else if (kind == "version") {
      // Moved or installed anew it has another stamp. To ask it costs milliseconds, so this is
      // last.
      same_compiler = same_compiler || rest == codegen::compiler_version(options);
    } else if (kind == "features") {
      static const std::vector<std::string> present = cpu_features();
      if (!missing_cpu_features(rest, present).empty()) {
        return false;
      }
    } else if (kind == "operator") {
      const std::size_t end = rest.find(' ');
      same_operators = same_operators &&
                       autograd_cache::identity_of(rest.substr(0, end)) == rest.substr(end + 1);
    } else {
      return false;
    }
  }
  return same_compiler && same_operators;
}

std::optional<std::string> reason_not_to_cache(const ir::Graph& graph) {
  for (const std::string& name : custom_operators(graph)) {
    if (!autograd_cache::identity_of(name)) {
      return "the operator " + name + " declares no identity";
    }
  }
  return std::nullopt;
}

}  // namespace kiln
