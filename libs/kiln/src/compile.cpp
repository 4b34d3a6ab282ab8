#include "kiln/function.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "changed_dims.hpp"
#include "compile_context.hpp"
#include "dump.hpp"
#include "dynamic_function.hpp"
#include "function_entry.hpp"
#include "kiln/autograd_dispatch/dispatch.hpp"
#include "kiln/autograd_dispatch/joint.hpp"
#include "kiln/base/log.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "slow_notice.hpp"
#include "stopwatch.hpp"
#include "version.hpp"
#include "version_budget.hpp"

namespace kiln {

using autograd_dispatch::JointTrace;

struct Function::State {
  State(TensorFunction fn,
        std::shared_ptr<torch::nn::Module> of,
        CompileOptions given,
        std::shared_ptr<detail::VersionBudget> counted_by,
        std::string why)
      : function(std::move(fn)),
        module(std::move(of)),
        budget(std::move(counted_by)),
        reason(std::move(why)),
        context(std::make_shared<CompileContext>(std::move(given))) {}

  TensorFunction function;
  std::shared_ptr<torch::nn::Module> module;
  const std::shared_ptr<detail::VersionBudget> budget;
  const std::string reason;  // Of the first version.
  const std::shared_ptr<CompileContext> context;
  const CompileOptions& options = context->options;
  const std::shared_ptr<autograd_cache::Cache>& cache = context->cache;

  using VersionPtr = std::shared_ptr<const Version>;
  using Versions = std::vector<VersionPtr>;
  mutable std::shared_mutex versions_lock;
  std::shared_ptr<const Versions> versions = std::make_shared<const Versions>();
  // One trace at a time: a second caller most likely wants the same version.
  std::mutex compile_lock;

  [[nodiscard]] std::shared_ptr<const Versions> current_versions() const {
    const std::shared_lock lock(versions_lock);
    return versions;
  }

  [[nodiscard]] VersionPtr find(const Tensors& inputs, const ThreadGuard& now) const {
    for (const VersionPtr& version : *current_versions()) {
      if (version->holds(inputs, now)) {
        return version;
      }
    }
    return nullptr;
  }

  // `hints` are typical values of symbols.
  std::pair<ir::Graph, ir::Graph> partition(const ir::Graph& joint, const ir::Bindings& hints) {
    dump_text(joint);
    const Stopwatch watch;
    std::pair<ir::Graph, ir::Graph> halves;
    if (options.partition) {
      halves = options.partition(joint);
    } else {
      partitioner::MinCutOptions cut;
      cut.memory_budget = options.memory_budget;
      cut.cost = partitioner::aten_cost_model(hints);
      partitioner::Partition made = partitioner::min_cut_partition(joint, cut);
      halves = {std::move(made.forward), std::move(made.backward)};
    }
    context->note([&](CompileReport& report) { report.partition_ms += watch.milliseconds(); });
    return halves;
  }

  // On inputs of which those with a history have one again, so that the function may write them.
  void check_hidden_reads(const Tensors& inputs) const {
    const auto with_histories = [&](Tensors arguments) {
      for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (inputs[i].defined() && !inputs[i].is_leaf()) {
          arguments[i] = arguments[i].clone();
        }
      }
      return function(arguments);
    };
    static_cast<void>(capture::record(
        with_histories,
        inputs,
        {.check_hidden_reads = true, .allow_uninitialized = options.allow_uninitialized}));
  }

  JointTrace trace(const Tensors& inputs) {
    if (options.progress) {
      options.progress({"trace", 0, 1});
    }
    const Stopwatch watch;
    const SlowNotice notice("tracing a function, which runs once with its operators recorded,");
    if (options.check_hidden_reads) {
      check_hidden_reads(inputs);
    }
    JointTrace traced = autograd_dispatch::trace_joint(function, inputs, trace_options());
    context->note([&](CompileReport& report) {
      ++report.traces;
      report.trace_ms += watch.milliseconds();
    });
    return traced;
  }

  [[nodiscard]] autograd_dispatch::TraceOptions trace_options() const {
    return {.keep_mutations_in_graph = options.keep_mutations_in_graph,
            .allow_uninitialized = options.allow_uninitialized};
  }

  // Versions for calls that differ from this one in the sizes of inputs.
  [[nodiscard]] Versions in_other_sizes(const Tensors& inputs, const ThreadGuard& now) const {
    Versions family;
    for (const VersionPtr& version : *versions) {
      if (version->function && version->resembles_in_other_sizes(inputs, now)) {
        family.push_back(version);
      }
    }
    return family;
  }

  [[nodiscard]] bool may_vary() const {
    return options.automatic_dynamic || options.dynamic || !options.dynamic_dims.empty();
  }

  // Makes the trace of a call one for a range of sizes, where that is wanted and can be had.
  void let_sizes_vary(Version& version, JointTrace& traced, const Tensors& inputs) {
    const Versions family = in_other_sizes(inputs, version.thread);
    constexpr int kMaxRefusals = 3;
    const auto refusals = std::ranges::count_if(
        family, [](const VersionPtr& other) { return !other->sizes && !other->remarks.empty(); });
    if (refusals >= kMaxRefusals) {
      version.remarks = family.back()->remarks;
      return;
    }
    std::vector<const std::vector<TensorGuard>*> seen;
    for (const VersionPtr& other : family) {
      seen.push_back(&other->inputs);
    }
    exporter::DynamicShapes shapes;
    try {
      shapes = dynamic_shapes(options, inputs, seen);
    } catch (const Error& error) {
      if (versions->empty()) {
        throw;  // The first call is what a declaration has to fit.
      }
      version.remarks.emplace_back(error.what());
    }
    if (shapes.symbols.empty()) {
      return;
    }
    if (codegen::device_of(traced.graph) == ir::DeviceType::kCuda) {
      version.remarks.emplace_back("sizes are fixed on CUDA");
      return;
    }
    const Stopwatch watch;
    const SlowNotice notice("tracing a function at several sizes");
    FunctionSampler sampler(function, inputs, traced.captured, traced.plan, trace_options());
    version.sizes = sampler.generalize(traced.graph, inputs, std::move(shapes), &version.remarks);
    if (version.sizes) {
      version.graph = std::make_shared<const ir::Graph>(traced.graph);
    }
    note_traces(sampler, watch);
  }

  // A version for a range that this call lies beyond, if a trace says that it holds here too. It is
  // not compiled again.
  VersionPtr widen(const Tensors& inputs, const ThreadGuard& now) {
    for (const VersionPtr& version : in_other_sizes(inputs, now)) {
      if (!version->sizes || !version->graph) {
        continue;
      }
      const Stopwatch watch;
      FunctionSampler sampler(
          function, inputs, version->captured, version->function->plan(), trace_options());
      Version wider = *version;
      ir::Graph graph = *version->graph;
      if (sampler.widen(graph, inputs, &*wider.sizes) && wider.holds(inputs, now)) {
        KILN_LOG(kInfo, "kiln", "a version holds for larger sizes too");
        wider.graph = std::make_shared<const ir::Graph>(std::move(graph));
        note_traces(sampler, watch);
        return replace(version, std::move(wider));
      }
      if (sampler.traces() > 0) {
        // Not to be tried at every call.
        note_traces(sampler, watch);
        Version closed = *version;
        closed.graph = nullptr;
        replace(version, std::move(closed));
      }
    }
    return nullptr;
  }

  void note_traces(const FunctionSampler& sampler, const Stopwatch& watch) const {
    context->note([&](CompileReport& report) {
      report.traces += sampler.traces();
      report.trace_ms += watch.milliseconds();
    });
  }

  VersionPtr replace(const VersionPtr& old, Version made) {
    auto version = std::make_shared<const Version>(std::move(made));
    auto all = std::make_shared<Versions>(*versions);
    const auto place = std::ranges::find(*all, old);
    *place = version;
    context->note([&](CompileReport& report) {
      report.details[static_cast<std::size_t>(place - all->begin())] =
          version->describe(options.input_names);
    });
    const std::unique_lock lock(versions_lock);
    versions = std::move(all);
    return version;
  }

  // From the cache, if it is there. `captured` is what a trace found.
  std::optional<FoundFunction> look_up(const autograd_cache::Key& key,
                                       const Tensors& inputs,
                                       const Tensors* captured = nullptr) {
    const Stopwatch watch;
    std::optional<FoundFunction> found =
        find_function(*cache, key, options, inputs, module.get(), captured);
    context->note([&](CompileReport& report) {
      report.lookup_ms += watch.milliseconds();
      if (found) {
        report.graphs.insert(report.graphs.end(), found->graphs.begin(), found->graphs.end());
      }
    });
    return found;
  }

  // How the tensors that a function uses and that are no arguments are found in another process.
  [[nodiscard]] std::optional<std::vector<std::string>> captured_names(
      const Tensors& captured) const {
    if (captured.empty()) {
      return std::vector<std::string>();
    }
    std::optional<std::vector<std::string>> names =
        module ? names_of(captured, *module) : std::nullopt;
    if (!names) {
      KILN_LOG(kInfo,
               "kiln",
               "'" << options.identity
                   << "' uses a tensor that is no parameter or buffer of a module it was given: it "
                      "is traced in every process");
    }
    return names;
  }

  void fill_from_trace(Version& version,
                       JointTrace traced,
                       const std::optional<autograd_cache::Key>& call_key,
                       const Tensors& inputs) {
    std::shared_ptr<FunctionRecord> record;
    version.origin = "traced";
    version.set_captured(traced.captured);
    const auto names = call_key ? captured_names(traced.captured) : std::nullopt;
    std::optional<autograd_cache::Key> own_key = call_key;
    std::string sizes;
    if (own_key && version.sizes) {
      own_key = key_of_call_of_any_size(options, inputs, version.thread, module.get());
      sizes = size_guards(*version.sizes, inputs);
    }
    if (cache && can_be_cached(options)) {
      record = std::make_shared<FunctionRecord>(cache);
      if (traced.differentiable()) {
        autograd_cache::Key key = key_of_trace(options, traced);
        if (auto found = look_up(key, inputs, &traced.captured)) {
          version.origin = "trace found in the cache";
          version.function = std::move(found->function);
          if (names) {
            save_as(*cache, *own_key, *names, std::move(found->entry), sizes);
          }
          return;
        }
        record->add_key(std::move(key));
      }
      if (names) {
        record->add_key(*own_key, *names, sizes);
      }
    }
    const ir::Bindings hints = version.sizes ? version.sizes->values(inputs) : ir::Bindings();
    version.function = autograd_dispatch::dispatch(
        std::move(traced),
        {.forward = graph_compiler(context, options.forward_compiler, record),
         .backward = graph_compiler(context, options.backward_compiler, record),
         .inference = graph_compiler(context, options.inference_compiler, record),
         .partition = [&](const ir::Graph& joint) { return partition(joint, hints); }});
    if (record) {
      record->set_plan(version.function->plan());
    }
  }

  // What a trace computed is returned where that is all that a call does.
  std::optional<Tensors> fill(Version& version, const Tensors& inputs) {
    std::optional<autograd_cache::Key> call_key;
    if (cache && can_be_cached(options) && !options.identity.empty()) {
      call_key = key_of_call(options, inputs, version.thread, module.get());
      std::optional<FoundFunction> found = look_up(*call_key, inputs);
      if (!found && may_vary()) {
        found =
            look_up(key_of_call_of_any_size(options, inputs, version.thread, module.get()), inputs);
      }
      if (found) {
        version.origin = "found in the cache";
        version.set_captured(std::move(found->captured));
        version.function = std::move(found->function);
        version.sizes = std::move(found->sizes);
        return std::nullopt;
      }
    }
    try {
      JointTrace traced = trace(inputs);
      if (traced.differentiable() && !options.forward_compiler &&
          codegen::device_of(traced.graph) == ir::DeviceType::kCuda) {
        return run_eagerly(version,
                           "a function that is to be differentiated on CUDA, which is not compiled "
                           "yet: it runs as it is. Without gradients (torch::NoGradGuard) it is "
                           "compiled");
      }
      let_sizes_vary(version, traced, inputs);
      // A dump is to show a run of the compiled graph.
      std::optional<Tensors> outputs = dump_wanted() ? std::nullopt : std::move(traced.outputs);
      fill_from_trace(version, std::move(traced), call_key, inputs);
      return outputs;
    } catch (const Error& error) {
      if (!options.fallback_to_eager || error.code() != ErrorCode::kUnsupported) {
        throw;
      }
      return run_eagerly(version, error.what());
    }
  }

  static std::nullopt_t run_eagerly(Version& version, const std::string& why) {
    KILN_LOG(kWarning, "kiln", "not compiled: " << why);
    version.set_captured({});
    version.origin = "eager";
    return std::nullopt;
  }

  // Why a version for this call is not the first one; empty if it is.
  [[nodiscard]] std::string reason_for(const Tensors& inputs, const ThreadGuard& now) const {
    if (versions->empty()) {
      return reason;
    }
    // The last one that differs in sizes says most.
    const Versions family = in_other_sizes(inputs, now);
    return (family.empty() ? versions : std::make_shared<const Versions>(family))
        ->back()
        ->mismatch(inputs, now, options.input_names);
  }

  // Makes a version for calls like this one, if the budget allows it.
  VersionPtr compile(const Tensors& inputs,
                     const ThreadGuard& now,
                     std::optional<Tensors>& outputs) {
    if (!budget->take()) {
      if (options.error_at_max_versions) {
        throw budget->refusal(reason_for(inputs, now));
      }
      budget->warn_of_eager_calls(reason_for(inputs, now));
      return nullptr;
    }
    try {
      return make_version(inputs, now, outputs);
    } catch (...) {
      budget->give_back();
      throw;
    }
  }

  VersionPtr make_version(const Tensors& inputs,
                          const ThreadGuard& now,
                          std::optional<Tensors>& outputs) {
    Version made(inputs, now, module.get());
    made.reason = reason_for(inputs, now);
    if (!made.reason.empty()) {
      budget->note_recompile(made.reason);
      KILN_LOG(kInfo, "kiln", "compiled again, version " << budget->used() << ": " << made.reason);
    }
    outputs = fill(made, inputs);
    auto version = std::make_shared<const Version>(std::move(made));
    auto all = std::make_shared<Versions>(*versions);
    all->push_back(version);
    {
      const std::unique_lock lock(versions_lock);
      versions = std::move(all);
    }
    context->note([&](CompileReport& report) {
      ++report.versions;
      report.details.push_back(version->describe(options.input_names));
    });
    return version;
  }

  // The version for a call, compiled if it must be; null if there is none and may be none.
  // `outputs` is set if compiling gave them too.
  VersionPtr obtain(const Tensors& inputs,
                    const ThreadGuard& now,
                    std::optional<Tensors>& outputs) {
    const std::lock_guard lock(compile_lock);
    VersionPtr version = find(inputs, now);
    if (!version) {
      version = widen(inputs, now);
    }
    return version ? version : compile(inputs, now, outputs);
  }

  Tensors call(const Tensors& inputs) {
    if (capture::is_recording()) {
      return function(inputs);
    }
    const ThreadGuard now = ThreadGuard::now();
    for (const VersionPtr& version : *current_versions()) {
      if (version->function) {
        if (std::optional<Tensors> outputs = version->call(inputs, now)) {
          return std::move(*outputs);
        }
      } else if (version->resembles(inputs, now)) {
        return function(inputs);
      }
    }
    std::optional<Tensors> outputs;
    const VersionPtr version = obtain(inputs, now, outputs);
    if (outputs) {
      return std::move(*outputs);
    }
    if (!version || !version->function) {
      return function(inputs);
    }
    return version->call(inputs, now).value();
  }

  void prepare(const Tensors& example) {
    std::optional<Tensors> outputs;
    obtain(example, ThreadGuard::now(), outputs);
  }
};

Function::State& Function::state() const {
  if (!state_) {
    throw Error(ErrorCode::kInvalidArgument,
                "the function is empty: kiln::compile makes one that can be called");
  }
  return *state_;
}

Tensors Function::operator()(const Tensors& inputs) const {
  return state().call(inputs);
}

void Function::prepare(const Tensors& example) const {
  state().prepare(example);
}

CompileReport Function::report() const {
  return state().context->report();
}

void detail::check_function(bool there) {
  if (!there) {
    throw Error(ErrorCode::kInvalidArgument, "there is no function to compile: it is null");
  }
}

Function detail::compile_with_budget(std::shared_ptr<torch::nn::Module> module,
                                     TensorFunction forward,
                                     CompileOptions options,
                                     std::shared_ptr<VersionBudget> budget,
                                     std::string reason) {
  Function function;
  function.state_ = std::make_shared<Function::State>(std::move(forward),
                                                      std::move(module),
                                                      std::move(options),
                                                      std::move(budget),
                                                      std::move(reason));
  return function;
}

Function compile(std::shared_ptr<torch::nn::Module> module,
                 TensorFunction forward,
                 CompileOptions options) {
  detail::check_function(forward != nullptr);
  auto budget = std::make_shared<detail::VersionBudget>(options.max_versions);
  return detail::compile_with_budget(
      std::move(module), std::move(forward), std::move(options), std::move(budget), {});
}

}  // namespace kiln
