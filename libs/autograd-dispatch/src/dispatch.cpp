#include "kiln/autograd_dispatch/dispatch.hpp"

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "assumptions.hpp"
#include "autograd_node.hpp"
#include "forward_backward_plan.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/log.hpp"
#include "kiln/ir/verify.hpp"
#include "memory_protection.hpp"
#include "read_symbols.hpp"
#include "saved_layout.hpp"
#include "verify_results.hpp"
#include "view_chain.hpp"
#include "wrapper.hpp"

namespace kiln::autograd_dispatch {

namespace {

std::string& current_id() {
  thread_local std::string id;
  return id;
}

std::vector<ir::SymbolSource> symbols_of_windows(const Plan& plan, const ir::Graph& graph) {
  const bool varies = std::ranges::any_of(plan.outputs, [](const OutputPlan& output) {
    return output.is_alias() && reads_symbols(output.view);
  });
  return varies ? ir::find_symbol_sources(graph) : std::vector<ir::SymbolSource>();
}

CompiledGraph compile_as(std::string id, const Compiler& compiler, const ir::Graph& graph) {
  // A compiler may dispatch functions of its own.
  struct Restore {
    std::string before;
    ~Restore() { current_id().swap(before); }
  };
  const Restore restore{std::exchange(current_id(), id)};
  CompiledGraph compiled = compiler(graph);
  return ir::verifies_passes() ? verifying_results(std::move(compiled), graph, std::move(id))
                               : compiled;
}

// A backward that takes sizes serves all later sizes, so it is compiled with the forward, as in
// PyTorch. A failure only matters if the backward runs: then it is compiled again.
std::function<CompiledGraph()> compiled_if_possible(std::function<CompiledGraph()> compile) {
  try {
    return [made = compile()] { return made; };
  } catch (const std::exception& failure) {
    KILN_LOG(kWarning,
             "autograd-dispatch",
             "cannot compile the backward for sizes that vary, trying again when it runs: "
                 << failure.what());
    return compile;
  }
}

}  // namespace

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

  [[nodiscard]] Tensors run(const Tensors& arguments) const {
    Call call{.arguments = arguments};
    for (const auto& wrapper : wrappers) {
      wrapper->before(call);
    }
    if (!plan.symbols.empty()) {
      call.symbols = read_symbols(plan.symbols, call.inputs);
    }
    call.results = compute(call.inputs);
    for (const auto& wrapper : wrappers) {
      wrapper->after(call);
    }
    call.outputs.resize(plan.returned);
    return std::move(call.outputs);
  }
};

const CompiledFunction::State& CompiledFunction::state() const {
  if (!state_) {
    throw Error(ErrorCode::kInvalidArgument, "the compiled function is empty");
  }
  return *state_;
}

bool CompiledFunction::accepts(const Tensors& arguments) const {
  return state().assumptions.violated_by(arguments).empty();
}

bool CompiledFunction::trains() const {
  return state().training != nullptr;
}
const Plan& CompiledFunction::plan() const {
  return state().plan;
}

Tensors CompiledFunction::operator()(const Tensors& arguments) const {
  if (std::string why = state().assumptions.violated_by(arguments); !why.empty()) {
    throw Error(ErrorCode::kInvalidArgument, std::move(why));
  }
  return state().run(arguments);
}

std::optional<Tensors> CompiledFunction::call_if_accepted(const Tensors& arguments) const {
  return accepts(arguments) ? std::optional(state().run(arguments)) : std::nullopt;
}

CompiledFunction assemble(Plan plan,
                          CompiledGraph forward,
                          std::function<CompiledGraph()> backward) {
  CompiledFunction function;
  function.state_ = std::make_shared<CompiledFunction::State>(std::move(plan));
  CompiledFunction::State& state = *function.state_;
  if (state.plan.tangents.empty()) {
    state.inference = std::move(forward);
  } else {
    state.training =
        std::make_shared<TrainingGraphs>(state.plan, std::move(forward), std::move(backward));
  }
  return function;
}

bool accepts(const Plan& plan, const Tensors& arguments) {
  return Assumptions(plan).violated_by(arguments).empty();
}

const std::string& compilation_id() {
  return current_id();
}

CompiledFunction dispatch(JointTrace trace, const DispatchOptions& options) {
  static std::atomic<std::uint64_t> functions = 0;
  const std::string number = std::to_string(functions++);
  // A compiler may compute too, and the graph has the casts in it.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  if (trace.plan.tangents.empty()) {
    protect_outputs(trace.graph, trace.plan);
    trace.plan.symbols = symbols_of_windows(trace.plan, trace.graph);
    CompiledGraph inference = compile_as(number + "_inference", options.inference, trace.graph);
    return assemble(std::move(trace.plan), std::move(inference));
  }
  if (!options.partition) {
    throw Error(ErrorCode::kInvalidArgument, "a function that trains needs a partition function");
  }
  auto [forward, backward] = options.partition(trace.graph);
  drop_saved_integers(forward);
  protect_outputs(forward, trace.plan);
  forward.set_name("forward");
  backward.set_name("backward");
  trace.plan.symbols = symbols_of_windows(trace.plan, forward);
  trace.plan.forward_backward = plan_forward_backward(trace.plan, forward, backward);
  CompiledGraph compiled =
      saving_as_traced(compile_as(number + "_forward", options.forward, forward), forward);
  std::function<CompiledGraph()> compile_backward =
      [id = number + "_backward", compiler = options.backward, graph = std::move(backward)] {
        return compile_as(id, compiler, graph);
      };
  if (!options.lazy_backward) {
    compile_backward = [made = compile_backward()] { return made; };
  } else if (!trace.plan.forward_backward.saved_sizes.empty()) {
    compile_backward = compiled_if_possible(std::move(compile_backward));
  }
  return assemble(std::move(trace.plan), std::move(compiled), std::move(compile_backward));
}

}  // namespace kiln::autograd_dispatch
