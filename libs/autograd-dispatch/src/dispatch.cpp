#include "kiln/autograd_dispatch/dispatch.hpp"

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "assumptions.hpp"
#include "autograd_node.hpp"
#include "kiln/base/error.hpp"
#include "memory_protection.hpp"
#include "wrapper.hpp"

namespace kiln::autograd_dispatch {

struct CompiledFunction::State {
  explicit State(Plan of) : plan(std::move(of)), assumptions(plan), wrappers(wrappers_of(plan)) {}

  Plan plan;
  Assumptions assumptions;
  std::vector<std::unique_ptr<const Wrapper>> wrappers;
  CompiledGraph inference;  // One of the two.
  std::shared_ptr<TrainingGraphs> training;

  [[nodiscard]] Tensors compute(const Tensors& inputs) const {
    // The graph has the casts in it.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    if (training) {
      return TrainingGraphs::apply(training, inputs);
    }
    const at::NoGradGuard no_grad;
    return without_views(inference(inputs));
  }
};

bool CompiledFunction::accepts(const Tensors& arguments) const {
  return state_->assumptions.violated_by(arguments).empty();
}

bool CompiledFunction::trains() const {
  return state_->training != nullptr;
}
const Plan& CompiledFunction::plan() const {
  return state_->plan;
}

Tensors CompiledFunction::operator()(const Tensors& arguments) const {
  if (std::string why = state_->assumptions.violated_by(arguments); !why.empty()) {
    throw Error(ErrorCode::kInvalidArgument, std::move(why));
  }
  Call call{.arguments = arguments};
  for (const auto& wrapper : state_->wrappers) {
    wrapper->before(call);
  }
  call.results = state_->compute(call.inputs);
  for (const auto& wrapper : state_->wrappers) {
    wrapper->after(call);
  }
  call.outputs.resize(state_->plan.returned);
  return std::move(call.outputs);
}

CompiledFunction dispatch(JointTrace trace, const DispatchOptions& options) {
  CompiledFunction function;
  function.state_ = std::make_shared<CompiledFunction::State>(std::move(trace.plan));
  CompiledFunction::State& state = *function.state_;
  if (state.plan.tangents.empty()) {
    protect_outputs(trace.graph, state.plan);
    state.inference = options.inference(trace.graph);
    return function;
  }
  if (!options.partition) {
    throw Error(ErrorCode::kInvalidArgument, "a function that trains needs a partition function");
  }
  auto [forward, backward] = options.partition(trace.graph);
  protect_outputs(forward, state.plan);
  forward.set_name("forward");
  backward.set_name("backward");
  state.training = std::make_shared<TrainingGraphs>(state.plan,
                                                    std::move(forward),
                                                    std::move(backward),
                                                    options.forward,
                                                    options.backward,
                                                    options.lazy_backward);
  return function;
}

}  // namespace kiln::autograd_dispatch
