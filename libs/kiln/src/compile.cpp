#include "kiln/compile.hpp"

#include <mutex>
#include <optional>
#include <shared_mutex>

#include "cache_use.hpp"
#include "guards.hpp"
#include "kiln/autograd_dispatch/dispatch.hpp"
#include "kiln/autograd_dispatch/joint.hpp"
#include "kiln/base/log.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "model_library.hpp"
#include "module_state.hpp"
#include "stopwatch.hpp"

namespace kiln {
namespace {

// A function compiled for one situation.
struct Version {
  ThreadGuard thread;
  std::vector<TensorGuard> inputs;
  std::vector<TensorGuard> captured_guards;
  std::optional<ModuleState> module;
  Tensors captured;
  autograd_dispatch::CompiledFunction function;

  [[nodiscard]] bool holds(const Tensors& arguments,
                           const ThreadGuard& now,
                           const ModuleState* module_now) const {
    if (arguments.size() != inputs.size() || now != thread || (module && *module != *module_now)) {
      return false;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].holds(arguments[i])) {
        return false;
      }
    }
    for (std::size_t i = 0; i < captured.size(); ++i) {
      if (!captured_guards[i].holds(captured[i])) {
        return false;
      }
    }
    return function.accepts(with_captured(arguments));
  }

  [[nodiscard]] Tensors run(const Tensors& arguments) const {
    return function(with_captured(arguments));
  }

  [[nodiscard]] Tensors with_captured(const Tensors& arguments) const {
    Tensors all;
    all.reserve(arguments.size() + captured.size());
    all.insert(all.end(), arguments.begin(), arguments.end());
    all.insert(all.end(), captured.begin(), captured.end());
    return all;
  }
};

std::vector<TensorGuard> guards_of(const Tensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

}  // namespace

struct Function::State : std::enable_shared_from_this<Function::State> {
  TensorFunction function;
  std::shared_ptr<torch::nn::Module> module;
  CompileOptions options;
  std::shared_ptr<autograd_cache::Cache> cache;

  mutable std::shared_mutex versions_lock;
  std::vector<std::shared_ptr<const Version>> versions;
  std::mutex
      compile_lock;  // One trace at a time: a second caller most likely wants the same version.
  mutable std::mutex report_lock;
  CompileReport report;

  std::shared_ptr<const Version> find(const Tensors& inputs,
                                      const ThreadGuard& now,
                                      const ModuleState* state) const {
    const std::shared_lock lock(versions_lock);
    for (const auto& version : versions) {
      if (version->holds(inputs, now, state)) {
        return version;
      }
    }
    return nullptr;
  }

  // The backward may be compiled when the caller's function object is gone: it must keep this
  // alive.
  autograd_dispatch::Compiler compiler(const autograd_dispatch::Compiler& given) {
    if (given) {
      return given;
    }
    return [self = shared_from_this()](const ir::Graph& graph) {
      GraphReport done;
      autograd_dispatch::CompiledGraph compiled =
          compile_graph(graph, self->options, self->cache.get(), done);
      KILN_LOG(kInfo,
               "kiln",
               done.name << ": " << done.nodes << " nodes, "
                         << (done.cache_hit ? "from the cache"
                                            : std::to_string(done.kernels) + " kernels")
                         << ", " << done.compile_ms + done.load_ms << " ms");
      const std::lock_guard lock(self->report_lock);
      self->report.graphs.push_back(std::move(done));
      return compiled;
    };
  }

  autograd_dispatch::PartitionFunction partition() const {
    if (options.partition) {
      return options.partition;
    }
    return [budget = options.memory_budget](const ir::Graph& joint) {
      partitioner::MinCutOptions cut;
      cut.memory_budget = budget;
      partitioner::Partition halves = partitioner::min_cut_partition(joint, cut);
      return std::pair(std::move(halves.forward), std::move(halves.backward));
    };
  }

  std::shared_ptr<const Version> compile(const Tensors& inputs,
                                         const ThreadGuard& now,
                                         std::optional<ModuleState> state) {
    if (options.progress) {
      options.progress({"trace", 0, 1});
    }
    const Stopwatch watch;
    autograd_dispatch::JointTrace trace = autograd_dispatch::trace_joint(
        function, inputs, {.keep_mutations_in_graph = options.keep_mutations_in_graph});
    {
      const std::lock_guard lock(report_lock);
      report.trace_ms += watch.milliseconds();
    }
    Tensors captured = trace.captured;
    autograd_dispatch::CompiledFunction compiled =
        autograd_dispatch::dispatch(std::move(trace),
                                    {.forward = compiler(options.forward_compiler),
                                     .backward = compiler(options.backward_compiler),
                                     .inference = compiler(options.inference_compiler),
                                     .partition = partition()});
    std::vector<TensorGuard> captured_guards = guards_of(captured);
    auto version = std::make_shared<const Version>(Version{now,
                                                           guards_of(inputs),
                                                           std::move(captured_guards),
                                                           std::move(state),
                                                           std::move(captured),
                                                           std::move(compiled)});
    {
      const std::unique_lock lock(versions_lock);
      versions.push_back(version);
    }
    const std::lock_guard lock(report_lock);
    ++report.versions;
    return version;
  }

  Tensors call(const Tensors& inputs) {
    const ThreadGuard now = ThreadGuard::now();
    std::optional<ModuleState> state;
    if (module) {
      state = ModuleState::of(*module);
    }
    std::shared_ptr<const Version> version = find(inputs, now, state ? &*state : nullptr);
    if (!version) {
      const std::lock_guard lock(compile_lock);
      version = find(inputs, now, state ? &*state : nullptr);
      if (!version) {
        if (versions.size() >= static_cast<std::size_t>(options.max_versions)) {
          if (options.fallback_to_eager) {
            return function(inputs);
          }
          throw Error(
              ErrorCode::kUnsupported,
              "the function was compiled for " + std::to_string(versions.size()) +
                  " kinds of inputs and sees another; raise max_versions or set fallback_to_eager");
        }
        version = compile(inputs, now, std::move(state));
      }
    }
    return version->run(inputs);
  }
};

Tensors Function::operator()(const Tensors& inputs) const {
  return state_->call(inputs);
}

CompileReport Function::report() const {
  const std::lock_guard lock(state_->report_lock);
  return state_->report;
}

Function compile(std::shared_ptr<torch::nn::Module> module,
                 TensorFunction forward,
                 CompileOptions options) {
  if (!forward) {
    throw Error(ErrorCode::kInvalidArgument, "there is no function to compile");
  }
  if (options.dynamic) {
    throw Error(ErrorCode::kUnsupported,
                "symbolic sizes (CompileOptions::dynamic) are not supported yet");
  }
  Function function;
  function.state_ = std::make_shared<Function::State>();
  function.state_->cache = open_cache(options);
  function.state_->function = std::move(forward);
  function.state_->module = std::move(module);
  function.state_->options = std::move(options);
  return function;
}

}  // namespace kiln
