#include "kiln/autograd_dispatch/joint.hpp"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_set>

#include "joint_program.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/log.hpp"
#include "kiln/capture/convert.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/ir/functionalize.hpp"
#include "kiln/ir/offset_dependent_inputs.hpp"
#include "view_chain.hpp"

namespace kiln::autograd_dispatch {
namespace {

// Moves the tangents after the primals, sets the kind of every output, and reads from the graph how
// aliases among the outputs are recreated.
void classify_outputs(ir::Graph& graph, const JointProgram& program, Plan& plan) {
  std::stable_partition(graph.inputs().begin(), graph.inputs().end(), [](const ir::Input& input) {
    return input.kind != ir::InputKind::kTangent;
  });

  std::vector<ir::Output>& outputs = graph.outputs();
  const OutputAnalysis& analysis = program.outputs();
  auto take = [&, next = std::size_t{0}](std::size_t count) mutable {
    std::vector<ir::ValueId> taken;
    for (std::size_t i = 0; i < count; ++i) {
      taken.push_back(outputs[next++].value);
    }
    return taken;
  };
  const std::vector<ir::ValueId> computed = take(analysis.computed().size());
  take(program.gradients().size());
  const std::vector<ir::ValueId> arguments = take(analysis.arguments().size());
  const std::vector<ir::ValueId> returned = take(analysis.outputs().size());
  plan.outputs = analysis.plans(graph, {arguments, computed, returned});
  for (const OutputAnalysis::NodeAlias& alias : analysis.node_aliases()) {
    plan.node_aliases.push_back(alias.plan);
  }

  const std::size_t first = computed.size();
  for (std::size_t i = 0; i < program.gradients().size(); ++i) {
    outputs[first + i].kind = ir::OutputKind::kGradient;
    outputs[first + i].input = program.gradients()[i];
  }
  outputs.resize(first + program.gradients().size());
}

// Decides who writes each mutated input: mutations visible to autograd become results the runtime
// copies in; the graph may write the rest.
void assign_mutations(ir::Graph& graph,
                      Plan& plan,
                      const std::vector<std::uint32_t>& without_memory,
                      bool keep_in_graph) {
  std::unordered_set<std::uint32_t> visible;
  for (const WritePlan& write : plan.writes) {
    visible.insert(write.input);
  }
  const auto in_backward = [&](const ir::Output& output) {
    return output.kind == ir::OutputKind::kMutation &&
           std::find(plan.backward_writes.begin(), plan.backward_writes.end(), output.input) !=
               plan.backward_writes.end();
  };
  std::vector<ir::Output> kept, results, hidden, gradients, late;
  for (ir::Output& output : graph.outputs()) {
    if (output.kind == ir::OutputKind::kGradient) {
      gradients.push_back(std::move(output));
    } else if (in_backward(output)) {
      late.push_back(std::move(output));
    } else if (output.kind != ir::OutputKind::kMutation) {
      results.push_back(std::move(output));
    } else if (!visible.contains(output.input) &&
               std::find(without_memory.begin(), without_memory.end(), output.input) ==
                   without_memory.end()) {
      WritePlan write{.input = output.input};
      if (keep_in_graph) {
        kept.push_back(std::move(output));
      } else {
        write.result = static_cast<std::uint32_t>(plan.computed + hidden.size());
        hidden.push_back({.value = output.value, .kind = ir::OutputKind::kUser});
      }
      plan.writes.push_back(write);
    }
  }

  const auto added = static_cast<std::uint32_t>(hidden.size());
  for (OutputPlan& output : plan.outputs) {
    if (output.kind == OutputPlan::Kind::kComputed && output.index >= plan.computed) {
      output.index += added;
    }
  }
  for (std::uint32_t& tangent : plan.tangents) {
    tangent += tangent >= plan.computed ? added : 0;
  }
  plan.computed += added;

  graph.outputs() = std::move(kept);
  for (std::vector<ir::Output>* part : {&results, &hidden, &gradients, &late}) {
    for (ir::Output& output : *part) {
      graph.add_output(std::move(output));
    }
  }
}

// A write that restores the old contents leaves no mutation in the graph, but still bumps
// autograd's version counter.
void plan_version_bumps(Plan& plan, const JointProgram& program, const InputLayout& layout) {
  for (const std::uint32_t argument : program.written_arguments()) {
    const std::uint32_t input = layout.input_of(argument);
    if (std::none_of(plan.writes.begin(), plan.writes.end(), [&](const WritePlan& write) {
          return write.input == input;
        })) {
      plan.changes.push_back({.argument = argument, .touched = true});
    }
  }
}

// Storage offsets that are guarded: arguments whose storage is addressed absolutely, or that are
// views of a merged base.
std::vector<OffsetPlan> offsets_of(const ir::Graph& graph,
                                   const Plan& plan,
                                   const InputLayout& layout) {
  std::vector<OffsetPlan> offsets;
  for (std::uint32_t i = 0; i < layout.arguments().size(); ++i) {
    const at::Tensor& argument = layout.arguments()[i];
    if (argument.defined() && plan.inputs[layout.input_of(i)].base) {
      offsets.push_back({i, argument.storage_offset()});
    }
  }
  for (const std::uint32_t input : ir::offset_dependent_inputs(graph)) {
    // The plan has the whole geometry of a merged base.
    if (input < plan.inputs.size() && !plan.inputs[input].base) {
      const ir::Expr& offset = graph.tensor(graph.inputs()[input].value).offset;
      offsets.push_back({plan.inputs[input].argument, offset.constant().value_or(0)});
    }
  }
  return offsets;
}

bool is_returnable_from_trace(const OutputPlan& output) {
  switch (output.kind) {
    case OutputPlan::Kind::kArgument:
    case OutputPlan::Kind::kAliasOfArgument: return false;
    default: return !output.requires_grad;
  }
}

// Whether the trace had all effects of a call, so that its outputs can be returned.
bool trace_replaces_call(const ir::Graph& graph, const Plan& plan, bool deferred_effects) {
  return !deferred_effects && plan.tangents.empty() && plan.writes.empty() &&
         plan.changes.empty() && !plan.grad_mode_after &&
         std::all_of(plan.outputs.begin(), plan.outputs.end(), is_returnable_from_trace) &&
         std::none_of(graph.nodes().begin(), graph.nodes().end(), [](const ir::Node& node) {
           return node.random;
         });
}

// Captured tensors that share storage: a write to one may be visible through the others.
void plan_captured_aliases(const Tensors& captured, Plan& plan) {
  const std::uint32_t own = plan.arguments - plan.captured;
  for (std::uint32_t i = 0; i < captured.size(); ++i) {
    const auto is_related = [&](const at::Tensor& other) {
      return other.has_storage() && captured[i].has_storage() &&
             other.storage().is_alias_of(captured[i].storage());
    };
    const auto first =
        static_cast<std::uint32_t>(std::ranges::find_if(captured, is_related) - captured.begin());
    const bool is_seen = std::ranges::any_of(plan.writes, [&](const WritePlan& write) {
      const std::uint32_t written = plan.inputs[write.input].argument;
      return written >= own && is_related(captured[written - own]);
    });
    if (first >= i || !is_seen) {
      continue;
    }
    for (auto k = static_cast<std::uint32_t>(plan.aliases.size()); k < plan.arguments; ++k) {
      plan.aliases.push_back({.first = k, .same_as = k});
    }
    AliasPlan& alias = plan.aliases[own + i];
    alias.first = own + first;
    alias.offset = captured[i].storage_offset() - captured[first].storage_offset();
  }
}

Plan plan_of(const JointProgram& program, const InputLayout& layout, const Tensors& captured) {
  Plan plan;
  plan.inputs = layout.inputs();
  plan.aliases = layout.aliases();
  const auto own = static_cast<std::uint32_t>(layout.arguments().size());
  for (std::uint32_t i = 0; i < captured.size(); ++i) {
    plan.inputs.push_back({.argument = own + i});
    if (!plan.aliases.empty()) {
      plan.aliases.push_back({.first = own + i, .same_as = own + i});
    }
  }
  plan.captured = static_cast<std::uint32_t>(captured.size());
  plan.arguments = own + plan.captured;
  for (const Tensors* list : {&layout.arguments(), &captured}) {
    for (const at::Tensor& argument : *list) {
      plan.requires_grad.push_back(argument.defined() && argument.requires_grad());
    }
  }
  plan.returned = program.returned();
  plan.computed = static_cast<std::uint32_t>(program.outputs().computed().size());
  plan.tangents = program.tangents();
  plan.gradients = program.gradients();
  plan.reached_by = program.reached_by();
  plan.backward_writes = program.backward_writes();
  plan.writes = program.writes();
  plan.changes = program.changes();
  plan.grad_mode = c10::GradMode::is_enabled();
  plan.grad_mode_after = program.grad_mode_after();
  plan.deterministic = at::globalContext().deterministicAlgorithms();
  return plan;
}

// Autocast's cast cache must not leak into or out of a trace: cached casts carry autograd history.
struct ScopedAutocastCache {
  ScopedAutocastCache() { at::autocast::clear_cache(); }
  ~ScopedAutocastCache() { at::autocast::clear_cache(); }
  ScopedAutocastCache(const ScopedAutocastCache&) = delete;
  ScopedAutocastCache& operator=(const ScopedAutocastCache&) = delete;
};

// Anomaly mode checks every gradient for NaN, which is meaningless while tracing: a compiled
// function's gradients are checked when it runs.
class AnomalyModeDisabled {
 public:
  AnomalyModeDisabled() { AnomalyMode::set_enabled(false, checks_nan_); }
  ~AnomalyModeDisabled() { AnomalyMode::set_enabled(enabled_, checks_nan_); }
  AnomalyModeDisabled(const AnomalyModeDisabled&) = delete;
  AnomalyModeDisabled& operator=(const AnomalyModeDisabled&) = delete;

 private:
  using AnomalyMode = torch::autograd::AnomalyMode;
  bool enabled_ = AnomalyMode::is_enabled();
  bool checks_nan_ = AnomalyMode::should_check_nan();
};

// One run of the function, with what earlier attempts have found out.
struct Attempt {
  const TensorFunction& function;
  const TraceOptions& options;
  InputLayout layout;
  bool without_values;
  // Gives values to what the function keeps; see `capture::Recording`.
  std::function<std::vector<std::string>(const Tensors& returned)> compute_escaped = {};

  // Nothing if it must be run again.
  std::optional<JointTrace> run();
  // Throws if the function keeps what it has computed, which then has values.
  void check_no_escapes(const JointTrace& trace) const;
};

std::optional<JointTrace> Attempt::run() {
  const ScopedAutocastCache casts;
  const AnomalyModeDisabled no_anomaly_mode;
  JointProgram program(function, layout);
  capture::RecordOptions record_options;
  record_options.without_values = without_values;
  record_options.allow_uninitialized = options.allow_uninitialized;
  record_options.on_capture = [&](const at::Tensor& tensor) { program.note_capture(tensor); };
  capture::Recording recording;
  try {
    recording = capture::record([&](const Tensors& sources) { return program.run(sources); },
                                layout.sources(),
                                record_options);
  } catch (...) {
    program.restore_captured();
    throw;
  }
  compute_escaped = std::move(recording.compute_escaped);
  if (program.must_merge()) {
    layout.merge(*program.must_merge());
    return std::nullopt;
  }

  JointTrace trace;
  trace.plan = plan_of(program, layout, recording.captured);
  classify_outputs(recording.graph, program, trace.plan);
  trace.plan.offsets = offsets_of(recording.graph, trace.plan, layout);
  trace.graph = ir::functionalize(std::move(recording.graph));
  assign_mutations(
      trace.graph, trace.plan, program.without_memory(), options.keep_mutations_in_graph);
  plan_version_bumps(trace.plan, program, layout);
  if (!trace.plan.writes.empty()) {
    plan_captured_aliases(recording.captured, trace.plan);
  }
  if (!without_values && trace_replaces_call(trace.graph, trace.plan, recording.deferred_effects)) {
    const Tensors& returned = program.outputs().outputs();
    trace.outputs.emplace(returned.begin(), returned.begin() + program.returned());
  } else {
    for (const std::string& target : recording.repeated_effects) {
      KILN_LOG(kWarning,
               "autograd-dispatch",
               target << " has a side effect and returns a value, so it ran once during tracing "
                         "and will run again in this call");
    }
  }
  trace.graph = ir::remove_dead_code(trace.graph);
  capture::complete_signatures(trace.graph);
  trace.graph.set_name(trace.plan.tangents.empty() ? "inference" : "joint");
  trace.captured = std::move(recording.captured);
  return trace;
}

void Attempt::check_no_escapes(const JointTrace& trace) const {
  const std::vector<std::string> origins =
      trace.outputs ? compute_escaped(*trace.outputs) : compute_escaped({});
  if (!origins.empty()) {
    throw Error(ErrorCode::kUnsupported,
                "the function keeps the result of " + origins.front() +
                    " in a member or a global, which compiled code would not update: return it, or "
                    "write it in place (copy_)");
  }
}

}  // namespace

JointTrace trace_joint(const TensorFunction& function,
                       const Tensors& inputs,
                       const TraceOptions& options) {
  Attempt attempt{.function = function,
                  .options = options,
                  .layout = InputLayout(inputs),
                  .without_values = options.graph_only ||
                                    (options.without_values && c10::GradMode::is_enabled())};
  bool is_traced = false;
  while (true) {
    try {
      if (std::optional<JointTrace> trace = attempt.run()) {
        is_traced = true;
        attempt.check_no_escapes(*trace);
        return std::move(*trace);
      }
      attempt.compute_escaped({});  // The function may read next time what it has kept.
    } catch (const std::exception& failure) {
      if (is_traced || !attempt.without_values || options.graph_only) {
        throw;
      }
      KILN_LOG(kDebug, "autograd-dispatch", "traced again, with values: " << failure.what());
      attempt.without_values = false;
    }
  }
}

}  // namespace kiln::autograd_dispatch
