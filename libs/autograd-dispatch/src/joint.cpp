#include "kiln/autograd_dispatch/joint.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <string>

#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/ir/functionalize.hpp"
#include "view_chain.hpp"

namespace kiln::autograd_dispatch {
namespace {

bool share_storage(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.has_storage() && b.has_storage() &&
         a.storage().is_alias_of(b.storage());
}

// What one run of the function returned, sorted by where each output comes from.
struct Outcome {
  Tensors primals;   // Inputs, then captured tensors.
  Tensors computed;  // Results of the compiled forward.
  Tensors aliases;   // Outputs that are views of primals or of computed results.
  std::vector<std::size_t> alias_output;  // For each alias: which output it is.
  std::vector<OutputPlan> outputs;
  std::vector<std::uint32_t> tangents, gradients;
};

std::uint32_t add_computed(Outcome& outcome, const at::Tensor& tensor) {
  for (std::uint32_t i = 0; i < outcome.computed.size(); ++i) {
    if (outcome.computed[i].is_same(tensor)) {
      return i;
    }
  }
  outcome.computed.push_back(tensor);
  return static_cast<std::uint32_t>(outcome.computed.size() - 1);
}

void add_alias(Outcome& outcome, OutputPlan& plan, const at::Tensor& output, std::size_t position) {
  plan.sizes = output.sizes().vec();
  plan.strides = output.strides().vec();
  plan.offset = output.storage_offset();
  outcome.aliases.push_back(output);
  outcome.alias_output.push_back(position);
}

OutputPlan plan_output(Outcome& outcome, const Tensors& outputs, std::size_t position) {
  using Kind = OutputPlan::Kind;
  const at::Tensor& output = outputs[position];
  OutputPlan plan;
  if (!output.defined()) {
    plan.kind = Kind::kNone;
    return plan;
  }
  plan.requires_grad = output.requires_grad();
  for (std::uint32_t i = 0; i < outcome.primals.size(); ++i) {
    if (outcome.primals[i].defined() && outcome.primals[i].is_same(output)) {
      plan.kind = Kind::kInput;
      plan.index = i;
      return plan;
    }
  }
  for (std::uint32_t i = 0; i < position; ++i) {
    if (outputs[i].defined() && outputs[i].is_same(output)) {
      plan.kind = Kind::kSameAs;
      plan.index = i;
      return plan;
    }
  }
  for (std::uint32_t i = 0; i < outcome.primals.size(); ++i) {
    if (share_storage(outcome.primals[i], output)) {
      plan.kind = Kind::kAliasOfInput;
      plan.index = i;
      add_alias(outcome, plan, output, position);
      return plan;
    }
  }

  const bool shared = std::any_of(outputs.begin(), outputs.end(), [&](const at::Tensor& other) {
    return !other.is_same(output) && share_storage(other, output);
  });
  if (shared && output.is_view()) {
    plan.kind = Kind::kAliasOfComputed;
    plan.index = add_computed(outcome, at::Tensor(output._base()));
    add_alias(outcome, plan, output, position);
    return plan;
  }
  plan.kind = Kind::kComputed;
  plan.index = add_computed(outcome, output);
  return plan;
}

// Ones in the layout of `output`: some tangent, so that the backward can be recorded.
at::Tensor tangent_for(const at::Tensor& output) {
  const capture::PauseRecording unrecorded;
  const at::NoGradGuard no_grad;
  return at::ones_like(output.detach());
}

void require_unchanged_grad(const Tensors& twins, const std::vector<bool>& required) {
  for (std::size_t i = 0; i < twins.size(); ++i) {
    if (twins[i].defined() && twins[i].requires_grad() && !required[i]) {
      throw Error(
          ErrorCode::kUnsupported,
          "input " + std::to_string(i) +
              " starts to require grad inside the function (it is written with a value that does)");
    }
  }
}

// The function and its gradients as one program. Returns computed results, gradients, then aliases.
Tensors run_joint(const TensorFunction& function, const Tensors& twins, Outcome& outcome) {
  std::vector<bool> required;
  for (const at::Tensor& twin : twins) {
    required.push_back(twin.defined() && twin.requires_grad());
  }
  const Tensors outputs = function(twins);
  require_unchanged_grad(twins, required);
  for (const at::Tensor& output : outputs) {
    if (output.defined()) {
      capture::note_use(output);
    }
  }
  outcome.primals = twins;
  const Tensors captured = capture::captured_so_far();
  outcome.primals.insert(outcome.primals.end(), captured.begin(), captured.end());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outcome.outputs.push_back(plan_output(outcome, outputs, i));
  }

  Tensors results = outcome.computed;
  torch::autograd::variable_list differentiable, tangents, targets;
  for (std::uint32_t i = 0; i < outcome.computed.size(); ++i) {
    if (outcome.computed[i].requires_grad()) {
      outcome.tangents.push_back(i);
      differentiable.push_back(outcome.computed[i]);
      tangents.push_back(tangent_for(outcome.computed[i]));
      capture::declare_input(tangents.back(), ir::InputKind::kTangent);
    }
  }
  if (!differentiable.empty()) {
    for (std::uint32_t i = 0; i < outcome.primals.size(); ++i) {
      if (outcome.primals[i].defined() && outcome.primals[i].requires_grad()) {
        outcome.gradients.push_back(i);
        targets.push_back(outcome.primals[i]);
      }
    }
    const capture::BackwardScope backward;
    const torch::autograd::variable_list gradients = torch::autograd::grad(differentiable,
                                                                           targets,
                                                                           tangents,
                                                                           /*retain_graph=*/false,
                                                                           /*create_graph=*/false,
                                                                           /*allow_unused=*/true);
    results.insert(results.end(), gradients.begin(), gradients.end());
  }
  results.insert(results.end(), outcome.aliases.begin(), outcome.aliases.end());
  return results;
}

// Moves the tangents behind the primals and says of every output what it is.
void arrange(ir::Graph& graph, Outcome& outcome) {
  std::stable_partition(graph.inputs().begin(), graph.inputs().end(), [](const ir::Input& input) {
    return input.kind != ir::InputKind::kTangent;
  });

  std::vector<ir::Output>& outputs = graph.outputs();
  const std::size_t gradients = outcome.computed.size();
  const std::size_t aliases = gradients + outcome.gradients.size();
  for (std::size_t i = 0; i < outcome.gradients.size(); ++i) {
    outputs[gradients + i].kind = ir::OutputKind::kGradient;
    outputs[gradients + i].input = outcome.gradients[i];
  }
  for (std::size_t i = 0; i < outcome.aliases.size(); ++i) {
    OutputPlan& plan = outcome.outputs[outcome.alias_output[i]];
    const ir::ValueId base = plan.kind == OutputPlan::Kind::kAliasOfInput
                                 ? std::as_const(graph).inputs()[plan.index].value
                                 : outputs[plan.index].value;
    plan.views = view_chain(graph, base, outputs[aliases + i].value);
  }
  outputs.resize(aliases);
}

}  // namespace

JointTrace trace_joint(const TensorFunction& function, const Tensors& inputs) {
  Outcome outcome;
  capture::Recording recording = capture::record(
      [&](const Tensors& twins) { return run_joint(function, twins, outcome); }, inputs);
  arrange(recording.graph, outcome);

  JointTrace trace;
  trace.graph = ir::remove_dead_code(ir::functionalize(recording.graph));
  trace.graph.set_name(outcome.tangents.empty() ? "inference" : "joint");
  trace.captured = std::move(recording.captured);
  trace.plan.inputs = static_cast<std::uint32_t>(outcome.primals.size());
  trace.plan.outputs = std::move(outcome.outputs);
  trace.plan.computed = static_cast<std::uint32_t>(outcome.computed.size());
  trace.plan.tangents = std::move(outcome.tangents);
  trace.plan.gradients = std::move(outcome.gradients);
  return trace;
}

}  // namespace kiln::autograd_dispatch
