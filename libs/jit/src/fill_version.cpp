// Makes a version of a function: finds it in the cache, or traces and compiles it.

#include <algorithm>

#include "changed_dims.hpp"
#include "function_state.hpp"
#include "kiln/autograd_dispatch/dispatch.hpp"
#include "kiln/base/log.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/jit/dump.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "slow_notice.hpp"

namespace kiln {
namespace {

bool is_symbol(const exporter::DynamicShapes& shapes, std::size_t input) {
  const std::vector<ir::Expr>& sizes = shapes.input_sizes[input];
  return std::ranges::any_of(sizes, [](const ir::Expr& size) { return !size.is_constant(); });
}

// What varies in training varies in evaluation too, even if everything else differs.
bool has_ranks_of(const std::vector<TensorGuard>& guards, const Tensors& tensors) {
  return std::ranges::equal(
      guards, tensors, [](const TensorGuard& guard, const at::Tensor& tensor) {
        return guard.defined == tensor.defined() &&
               (!guard.defined || guard.sizes.size() == tensor.sizes().size());
      });
}

}  // namespace

std::pair<ir::Graph, ir::Graph> Function::State::partition(const ir::Graph& joint) {
  dump_text(joint);
  const Stopwatch watch;
  std::pair<ir::Graph, ir::Graph> parts;
  if (options.partition) {
    parts = options.partition(joint);
  } else {
    partitioner::MinCutOptions cut;
    cut.memory_budget = options.memory_budget;
    partitioner::Partition made = partitioner::min_cut_partition(joint, cut);
    parts = {std::move(made.forward), std::move(made.backward)};
  }
  context->note([&](CompileReport& report) { report.partition_ms += watch.milliseconds(); });
  return parts;
}

void Function::State::check_hidden_reads(const Tensors& inputs) const {
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

autograd_dispatch::JointTrace Function::State::trace(const Tensors& inputs) {
  if (options.progress) {
    options.progress({Stage::kTrace, 0, 1});
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

autograd_dispatch::TraceOptions Function::State::trace_options() const {
  return {.keep_mutations_in_graph = options.keep_mutations_in_graph,
          .allow_uninitialized = options.allow_uninitialized};
}

const IntegerHistory* Function::State::known_integers() const {
  return integers == 0 || options.dynamic ? nullptr : &history_;
}

std::shared_ptr<VisitedSizes> Function::State::visits_of(const Version& version,
                                                         const Tensors& inputs) const {
  if (!version.sizes || options.verify_new_sizes == VerifySizes::kNever) {
    return nullptr;
  }
  bool varies = options.verify_new_sizes == VerifySizes::kAll;
  for (std::size_t i = inputs.size() - integers; i < inputs.size(); ++i) {
    varies = varies || version.sizes->mentions(i);
  }
  if (!varies) {
    return nullptr;
  }
  auto visited = std::make_shared<VisitedSizes>();
  visited->add(inputs, true);
  return visited;
}

bool Function::State::is_confirmed(const Version& version, const Tensors& inputs) {
  if (!visits_of(version, inputs)) {
    return true;
  }
  if (!version.graph) {
    return false;
  }
  const Stopwatch watch;
  FunctionSampler sampler(function,
                          inputs,
                          version.captured,
                          version.function->plan(),
                          trace_options(),
                          integers,
                          known_integers());
  ir::Graph graph = *version.graph;
  SymbolicSizes sizes = *version.sizes;
  const bool is_same = sampler.widen(graph, inputs, &sizes);
  note_traces(sampler, watch);
  return is_same;
}

bool Function::State::may_vary() const {
  return options.automatic_dynamic || options.dynamic || !options.dynamic_dims.empty();
}

void Function::State::let_sizes_vary(Version& version, JointTrace& traced, const Tensors& inputs) {
  const Versions family = in_other_sizes(inputs, version.thread);
  constexpr int kMaxRefusals = 3;
  const auto refusals = std::ranges::count_if(family, [&](const VersionPtr& other) {
    return !other->sizes && !other->remarks.empty() && has_integers_of(*other, inputs);
  });
  if (refusals >= kMaxRefusals) {
    version.remarks = family.back()->remarks;
    return;
  }
  std::vector<const std::vector<TensorGuard>*> seen;
  for (const VersionPtr& other : *versions_) {
    if (has_ranks_of(other->inputs, inputs)) {
      seen.push_back(&other->inputs);
    }
  }
  exporter::DynamicShapes shapes;
  try {
    shapes = dynamic_shapes(options, inputs, integers, seen, known_integers());
  } catch (const Error& error) {
    if (versions_->empty()) {
      throw;  // A declaration must match the first call.
    }
    version.remarks.emplace_back(error.what());
  }
  if (shapes.symbols.empty()) {
    return;
  }
  if (codegen::device_of(traced.graph) == ir::DeviceType::kCuda) {
    version.remarks.emplace_back("sizes are fixed on CUDA");
    note_attempts(shapes, inputs, /*failed=*/false);
    return;
  }
  const Stopwatch watch;
  const SlowNotice notice("tracing a function at several sizes");
  FunctionSampler sampler(
      function, inputs, traced.captured, traced.plan, trace_options(), integers, known_integers());
  version.sizes = sampler.generalize(traced.graph, inputs, shapes, &version.remarks);
  if (version.sizes) {
    version.graph = std::make_shared<const ir::Graph>(traced.graph);
    traced.plan = sampler.plan();
  }
  note_attempts(shapes, inputs, /*failed=*/!version.sizes);
  note_traces(sampler, watch);
}

void Function::State::note_attempts(const exporter::DynamicShapes& shapes,
                                    const Tensors& inputs,
                                    bool failed) {
  for (std::size_t i = 0; i < integers; ++i) {
    const std::size_t input = inputs.size() - integers + i;
    // For 0 and 1 the function may do something else. Then a later integer is worth an attempt.
    const bool is_special = failed && inputs[input].sizes().back() < 2;
    if (is_symbol(shapes, input) && !is_special) {
      history_.note_attempt(i);
    }
  }
}

std::optional<CachedFunction> Function::State::look_up(const autograd_cache::Key& key,
                                                       const Tensors& inputs,
                                                       const Tensors* captured) {
  const Stopwatch watch;
  std::optional<CachedFunction> found =
      find_function(*cache, key, options, inputs, module.get(), captured);
  context->note([&](CompileReport& report) {
    report.lookup_ms += watch.milliseconds();
    if (found) {
      report.graphs.insert(report.graphs.end(), found->graphs.begin(), found->graphs.end());
    }
  });
  return found;
}

std::optional<std::vector<std::string>> Function::State::captured_names(
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
                 << "' captures a tensor that is not a parameter or buffer of the compiled "
                    "module, so it cannot be loaded by identity and is traced again in every "
                    "process");
  }
  return names;
}

void Function::State::fill_from_trace(Version& version,
                                      JointTrace traced,
                                      const std::optional<autograd_cache::Key>& call_key,
                                      const Tensors& inputs) {
  std::shared_ptr<FunctionEntryBuilder> record;
  version.origin = Origin::kTraced;
  version.set_captured(traced.captured);
  const auto names = call_key ? captured_names(traced.captured) : std::nullopt;
  std::optional<autograd_cache::Key> own_key = call_key;
  std::string sizes;
  if (own_key && version.sizes) {
    own_key = shape_agnostic_key(options, inputs, version.thread, module.get());
    sizes = size_guards(*version.sizes, inputs);
  }
  if (cache && can_be_cached(options)) {
    record = std::make_shared<FunctionEntryBuilder>(cache);
    if (traced.differentiable()) {
      autograd_cache::Key key = key_of_trace(options, traced);
      if (auto found = look_up(key, inputs, &traced.captured)) {
        version.origin = Origin::kCachedTrace;
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
    if (visits_of(version, inputs)) {
      record->set_graph(*version.graph);
    }
  }
  version.function = autograd_dispatch::dispatch(
      std::move(traced),
      {.forward = graph_compiler(context, options.forward_compiler, record),
       .backward = graph_compiler(context, options.backward_compiler, record),
       .inference = graph_compiler(context, options.inference_compiler, record),
       .partition = [&](const ir::Graph& joint) { return partition(joint); }});
  if (record) {
    record->set_plan(version.function->plan());
  }
}

std::optional<Tensors> Function::State::fill(Version& version,
                                             const Tensors& inputs,
                                             bool has_identity) {
  const Stopwatch watch;
  if (cache && !can_be_cached(options)) {
    cache->bypass("the program has compilers or a partition function of its own");
  }
  std::optional<autograd_cache::Key> call_key;
  if (has_identity && cache && can_be_cached(options) && !options.identity.empty()) {
    call_key = key_of_call(options, inputs, version.thread, module.get());
    std::optional<CachedFunction> found = look_up(*call_key, inputs);
    if (!found && may_vary()) {
      found = look_up(shape_agnostic_key(options, inputs, version.thread, module.get()), inputs);
    }
    if (found) {
      Version cached = version;
      cached.origin = Origin::kCached;
      cached.set_captured(std::move(found->captured));
      cached.function = std::move(found->function);
      cached.sizes = std::move(found->sizes);
      cached.graph = std::move(found->graph);
      if (is_confirmed(cached, inputs)) {
        version = std::move(cached);
        return std::nullopt;
      }
    }
  }
  try {
    JointTrace traced = trace(inputs);
    const double trace_ms = watch.milliseconds();
    const bool on_cuda = codegen::device_of(traced.graph) == ir::DeviceType::kCuda;
    if (traced.differentiable() && !options.forward_compiler && on_cuda) {
      return run_eagerly(version,
                         "differentiating a function on CUDA is not supported yet; without "
                         "gradients (torch::NoGradGuard) it is compiled");
    }
    // A trace runs operators that have no meta rule, with the indices of the call: one out of range
    // would destroy the CUDA context.
    if (options.retrace != Retrace::kNever && !on_cuda && !has_effects_in_trace(traced.graph)) {
      version.program = std::make_shared<const TracedProgram>(traced, inputs, module.get());
    }
    let_sizes_vary(version, traced, inputs);
    // A dump needs a run of the compiled graph, so the outputs of the trace cannot be returned.
    std::optional<Tensors> outputs = dump_wanted() ? std::nullopt : std::move(traced.outputs);
    fill_from_trace(version, std::move(traced), call_key, inputs);
    if (version.program) {
      version.retraces = std::make_shared<RetraceSchedule>(
          options.retrace, options.retrace_budget, trace_ms, watch.milliseconds());
    }
    return outputs;
  } catch (const Error& error) {
    if (!options.fallback_to_eager || error.code() != ErrorCode::kUnsupported) {
      throw;
    }
    return run_eagerly(version, error.what());
  }
}

std::nullopt_t Function::State::run_eagerly(Version& version, const std::string& why) {
  KILN_LOG(kWarning, "kiln", "the function cannot be compiled and runs eagerly: " << why);
  version.set_captured({});
  version.program = nullptr;
  version.origin = Origin::kEager;
  return std::nullopt;
}

}  // namespace kiln
