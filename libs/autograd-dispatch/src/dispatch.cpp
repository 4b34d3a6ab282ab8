#include "kiln/autograd_dispatch/dispatch.hpp"

#include <c10/core/GradMode.h>

#include <optional>
#include <unordered_set>

#include "autograd_node.hpp"
#include "kiln/base/error.hpp"
#include "kiln/capture/replay.hpp"

namespace kiln::autograd_dispatch {
namespace {

// A saved input that the forward also writes would reach the backward with its new value: save a
// copy.
void save_before_mutation(ir::Graph& forward) {
  std::unordered_set<ir::ValueId> written;
  for (const ir::Output& output : std::as_const(forward).outputs()) {
    if (output.kind == ir::OutputKind::kMutation) {
      written.insert(std::as_const(forward).inputs()[output.input].value);
    }
  }
  for (ir::Output& output : forward.outputs()) {
    if (output.kind == ir::OutputKind::kSaved && written.contains(output.value)) {
      ir::TensorMeta meta = forward.tensor(output.value);
      meta.storage = forward.new_storage();
      ir::Node clone;
      clone.target = "aten.clone.default";
      clone.signature = "Tensor,MemoryFormat?->Tensor";
      clone.arguments = {output.value, std::monostate()};
      output.value = forward.node(forward.add_node(std::move(clone), {std::move(meta)})).results[0];
    }
  }
}

}  // namespace

struct CompiledFunction::State {
  Plan plan;
  CompiledGraph inference;  // One of the two.
  std::shared_ptr<TrainingGraphs> training;
  std::vector<std::optional<capture::Interpreter>> views;  // By output.

  Tensors compute(const Tensors& inputs) const {
    if (training) {
      return TrainingGraphs::apply(training, inputs);
    }
    const at::NoGradGuard no_grad;
    return inference(inputs);
  }

  at::Tensor regenerate(std::size_t output, const at::Tensor& base) const {
    if (views[output]) {
      return views[output]->run({base})[0];
    }
    const OutputPlan& wanted = plan.outputs[output];
    return base.as_strided(wanted.sizes, wanted.strides, wanted.offset);
  }
};

bool CompiledFunction::trains() const {
  return state_->training != nullptr;
}
const Plan& CompiledFunction::plan() const {
  return state_->plan;
}

Tensors CompiledFunction::operator()(const Tensors& inputs) const {
  const Plan& plan = state_->plan;
  if (inputs.size() != plan.inputs) {
    throw Error(ErrorCode::kInvalidArgument,
                "the function was compiled for " + std::to_string(plan.inputs) + " inputs, got " +
                    std::to_string(inputs.size()));
  }
  const Tensors computed = state_->compute(inputs);

  Tensors outputs(plan.outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OutputPlan& wanted = plan.outputs[i];
    switch (wanted.kind) {
      case OutputPlan::Kind::kNone: break;
      case OutputPlan::Kind::kComputed: outputs[i] = computed[wanted.index]; break;
      case OutputPlan::Kind::kInput: outputs[i] = inputs[wanted.index]; break;
      case OutputPlan::Kind::kSameAs: outputs[i] = outputs[wanted.index]; break;
      case OutputPlan::Kind::kAliasOfInput:
        outputs[i] = state_->regenerate(i, inputs[wanted.index]);
        break;
      case OutputPlan::Kind::kAliasOfComputed:
        outputs[i] = state_->regenerate(i, computed[wanted.index]);
        break;
    }
  }
  return outputs;
}

CompiledFunction dispatch(JointTrace trace, const DispatchOptions& options) {
  CompiledFunction function;
  function.state_ = std::make_shared<CompiledFunction::State>();
  CompiledFunction::State& state = *function.state_;
  for (OutputPlan& output : trace.plan.outputs) {
    state.views.emplace_back();
    if (output.views) {
      state.views.back().emplace(*output.views);
    }
  }
  state.plan = trace.plan;
  if (!trace.differentiable()) {
    state.inference = options.inference(trace.graph);
    return function;
  }
  if (!options.partition) {
    throw Error(ErrorCode::kInvalidArgument, "a function that trains needs a partition function");
  }
  auto [forward, backward] = options.partition(trace.graph);
  save_before_mutation(forward);
  forward.set_name("forward");
  backward.set_name("backward");
  state.training = std::make_shared<TrainingGraphs>(std::move(trace.plan),
                                                    std::move(forward),
                                                    std::move(backward),
                                                    options.forward,
                                                    options.backward,
                                                    options.lazy_backward);
  return function;
}

}  // namespace kiln::autograd_dispatch
