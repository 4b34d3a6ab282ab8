// A model library in this process, called through its table.

#pragma once

#include <dlfcn.h>
#include <torch/torch.h>

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "driver/compile_schedule.hpp"
#include "hand_made.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/container_runtime/model.h"
#include "kiln/ir/parse.hpp"

namespace kiln::codegen::testing {

using Tensors = std::vector<at::Tensor>;

inline AtenTensorOpaque* handle_of(const at::Tensor& tensor) {
  return reinterpret_cast<AtenTensorOpaque*>(const_cast<at::Tensor*>(&tensor));
}

/// A model with `constants` in it, whose memory they stay.
inline Options with_constants(const Tensors& constants) {
  Options options;
  options.bind_constants = true;
  for (const at::Tensor& constant : constants) {
    const auto* bytes = static_cast<const std::byte*>(constant.data_ptr());
    options.constants.push_back({std::span(bytes, constant.nbytes())});
  }
  return options;
}

enum class Scheduler { kByHand, kReal };

/// Compiles a graph and loads it.
class LoadedModel {
 public:
  explicit LoadedModel(const ir::Graph& graph,
                       Options options = {},
                       Tensors constants = {},
                       Scheduler scheduler = Scheduler::kByHand)
      : constants_(std::move(constants)) {
    options.runtime_archive = KILN_BARE_CONTAINER;
    const std::filesystem::path library = directory_.path() / "model.so";
    report_ = scheduler == Scheduler::kReal
                  ? compile(graph, library, options)
                  : compile_schedule(schedule_by_hand(graph, options.bind_constants),
                                     nullptr,
                                     CpuBackend({Target{}}),
                                     library,
                                     options);
    append_weights(library, options.constants);
    load(library);
    fold();
  }
  /// With the steps and kernels that `target` gets, whatever this machine is.
  LoadedModel(const ir::Graph& graph, const Target& target) {
    const CpuBackend backend({target});
    Options options;
    options.runtime_archive = KILN_BARE_CONTAINER;
    const std::filesystem::path library = directory_.path() / "model.so";
    Schedule steps = schedule(graph, backend, false);
    KernelTable kernels = write_kernels(graph, steps, backend);
    report_ = compile_schedule(
        {graph, std::move(steps), std::move(kernels)}, nullptr, backend, library, options);
    load(library);
  }
  ~LoadedModel() {
    if (library_ != nullptr) {
      model_->destroy(instance_);
      ::dlclose(library_);
    }
  }
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  [[nodiscard]] const KilnModel& table() const { return *model_; }
  [[nodiscard]] const Report& report() const { return report_; }
  [[nodiscard]] const std::filesystem::path& library() const { return library_path_; }

  /// Runs once and returns the code; `outputs` gets what the model gave.
  int run(const Tensors& inputs, Tensors* outputs) {
    return call(model_->run, static_cast<std::size_t>(model_->num_outputs), inputs, outputs);
  }

  /// What the model itself said of its last run; empty if it had nothing to say.
  [[nodiscard]] const std::string& error() const { return error_; }

  Tensors operator()(const Tensors& inputs) {
    Tensors outputs;
    if (run(inputs, &outputs) != 0) {
      throw std::runtime_error("the model failed");
    }
    return outputs;
  }

 private:
  void load(const std::filesystem::path& library) {
    library_path_ = library;
    library_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
      throw std::runtime_error(::dlerror());
    }
    using Accessor = const KilnModel* (*)();
    model_ = reinterpret_cast<Accessor>(::dlsym(library_, "kiln_test_model"))();
    instance_ = model_->create();
  }

  // Computes the constants that were not given, as a container does before the first run.
  void fold() {
    if (model_->fold != nullptr) {
      Tensors folded;
      const std::size_t count = static_cast<std::size_t>(model_->num_constants) - constants_.size();
      if (call(model_->fold, count, {}, &folded) != 0) {
        throw std::runtime_error("folding failed");
      }
      constants_.insert(constants_.end(), folded.begin(), folded.end());
    }
  }

  int call(int32_t (*function)(void*, KilnCall*),
           std::size_t output_count,
           const Tensors& inputs,
           Tensors* outputs) {
    const at::NoGradGuard guard;
    std::vector<AtenTensorOpaque*> in;
    std::vector<AtenTensorOpaque*> constants;
    std::vector<void*> constant_data;
    for (const at::Tensor& input : inputs) {
      in.push_back(handle_of(input));
    }
    for (const at::Tensor& constant : constants_) {
      constants.push_back(handle_of(constant));
      constant_data.push_back(constant.data_ptr());
    }
    std::vector<AtenTensorOpaque*> out(output_count, nullptr);
    KilnCall call{
        in.data(), out.data(), constants.data(), constant_data.data(), nullptr, nullptr, nullptr};
    const int code = function(instance_, &call);
    error_ = call.error == nullptr ? "" : call.error;
    for (AtenTensorOpaque* handle : out) {
      if (handle != nullptr) {
        auto* tensor = reinterpret_cast<at::Tensor*>(handle);
        outputs->push_back(std::move(*tensor));
        delete tensor;
      }
    }
    return code;
  }

  TemporaryDirectory directory_{"kiln-codegen-test"};
  std::filesystem::path library_path_;
  Tensors constants_;
  Report report_;
  void* library_ = nullptr;
  const KilnModel* model_ = nullptr;
  void* instance_ = nullptr;
  std::string error_;
};

/// The graph of `text`; nodes get the signatures that a tracer would have recorded.
inline ir::Graph graph_of(const std::string& text,
                          const std::vector<std::pair<std::string, std::string>>& signatures = {}) {
  ir::Graph graph = ir::parse(text);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const auto& [target, signature] : signatures) {
      if (graph.nodes()[i].target == target) {
        graph.node(ir::NodeId(i)).signature = signature;
      }
    }
  }
  return graph;
}

}  // namespace kiln::codegen::testing
