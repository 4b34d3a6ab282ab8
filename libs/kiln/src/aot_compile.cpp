#include <ATen/Functions.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/container_runtime/package.hpp"
#include "kiln/program.hpp"
#include "model_library.hpp"
#include "stopwatch.hpp"

namespace kiln {
namespace {

bool is_constant(const ir::Input& input) {
  return input.kind == ir::InputKind::kParameter || input.kind == ir::InputKind::kBuffer ||
         input.kind == ir::InputKind::kConstant;
}

// The weights' bytes in the order of the graph's constant inputs, and the tensors that own them.
std::pair<std::vector<codegen::ConstantData>, Tensors> constant_data(
    const ExportedProgram& program) {
  std::vector<codegen::ConstantData> data;
  Tensors owners;
  for (const ir::Input& input : program.graph.inputs()) {
    if (!is_constant(input)) {
      continue;
    }
    const auto found = program.weights.find(input.name);
    if (found == program.weights.end()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the program has no weight named '" + input.name + "'");
    }
    const at::Tensor& weight = found->second;
    if (!weight.is_non_overlapping_and_dense() || !weight.device().is_cpu()) {
      throw Error(ErrorCode::kUnsupported,
                  "the weight '" + input.name + "' is not a dense tensor on the CPU");
    }
    data.push_back({std::as_bytes(
        std::span(static_cast<const char*>(weight.const_data_ptr()), weight.nbytes()))});
    owners.push_back(weight);
  }
  return {std::move(data), std::move(owners)};
}

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

}  // namespace

std::filesystem::path aot_compile(const ExportedProgram& program,
                                  const std::filesystem::path& out,
                                  CompileOptions options,
                                  GraphReport* report) {
  const std::string extension = out.extension().string();
  if (extension != ".so" && extension != ".pt2") {
    throw Error(ErrorCode::kInvalidArgument, "'" + out.string() + "' ends in neither .pt2 nor .so");
  }
  if (options.dynamic) {
    throw Error(ErrorCode::kUnsupported,
                "symbolic sizes (CompileOptions::dynamic) are not supported yet");
  }
  const std::shared_ptr<autograd_cache::Cache> cache = open_cache(options);
  codegen::Options generator = codegen_options(options, cache.get());
  generator.bind_constants = true;
  generator.in_spec = program.in_spec;
  generator.out_spec = program.out_spec;
  const auto [constants, owners] = constant_data(program);
  generator.constants = constants;

  GraphReport done;
  done.name = program.graph.name();
  done.nodes = static_cast<int>(program.graph.nodes().size());
  const Stopwatch watch;
  const TemporaryDirectory scratch("kiln-aot");
  const std::filesystem::path library = scratch.path() / "model.so";
  std::filesystem::path extern_nodes;
  std::string source;
  std::optional<autograd_cache::Key> key;
  if (cache) {
    key = key_of(program.graph, generator, options.identity);
    if (const auto entry = cache->find(*key)) {
      std::filesystem::copy_file(entry->files.at("library"), library);
      source = entry->blobs.at("source");
      done.cache_hit = true;
    }
  }
  if (!done.cache_hit) {
    codegen::Report compiled = codegen::compile(program.graph, library, generator);
    done.kernels = compiled.kernels;
    done.extern_calls = compiled.extern_calls;
    done.compile_ms = watch.milliseconds();
    extern_nodes = compiled.extern_nodes;
    if (key) {
      store(*cache, *key, library, compiled);
    }
    source = std::move(compiled.source);
  }
  codegen::append_weights(library, constants);

  if (out.has_parent_path()) {
    std::filesystem::create_directories(out.parent_path());
  }
  const auto overwrite = std::filesystem::copy_options::overwrite_existing;
  if (extension == ".so") {
    std::filesystem::copy_file(library, out, overwrite);
    if (!extern_nodes.empty()) {
      std::filesystem::copy_file(
          extern_nodes, std::filesystem::path(out).replace_extension(".json"), overwrite);
    }
  } else {
    container_runtime::write_package(
        out,
        {.library = library,
         .source = source,
         .extern_nodes = extern_nodes.empty() ? "" : read_file(extern_nodes),
         .sample_inputs = pickled_samples(program)});
  }
  if (report != nullptr) {
    *report = std::move(done);
  }
  return out;
}

}  // namespace kiln
