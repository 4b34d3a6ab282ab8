#include "dynamic_function.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>
#include <utility>

#include "changed_dims.hpp"
#include "kiln/autograd_dispatch/plan_bytes.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/memory.hpp"

namespace kiln {

using autograd_dispatch::JointTrace;
using autograd_dispatch::OutputPlan;
using autograd_dispatch::Plan;
using exporter::DynamicShapes;
using exporter::ExportedProgram;

namespace {

[[noreturn]] void refuse_size(const std::string& reason) {
  throw Error(ErrorCode::kUnsupported, reason);
}

// Integers of the call may be indices into what has fewer elements at the sizes that are traced.
// The first element is always there.
JointTrace trace_with_valid_indices(const autograd_dispatch::TensorFunction& function,
                                    Tensors arguments,
                                    const autograd_dispatch::TraceOptions& options) {
  try {
    return autograd_dispatch::trace_joint(function, arguments, options);
  } catch (const c10::IndexError&) {
    for (at::Tensor& argument : arguments) {
      if (argument.defined() && at::isIntegralType(argument.scalar_type(), /*includeBool=*/false)) {
        argument = at::zeros_like(argument);
      }
    }
    return autograd_dispatch::trace_joint(function, arguments, options);
  }
}

// Inputs may begin anywhere in their memory, in each call elsewhere (`data.narrow(0, i, 1)`). If a
// program depends on that, its plan says so (`Plan::offsets`).
void drop_input_offsets(ir::Graph& graph) {
  const std::vector<std::uint32_t> memories = ir::memory_ids(graph);
  std::map<std::uint32_t, std::int64_t> begins;  // Of inputs, by memory.
  for (const ir::Input& input : std::as_const(graph).inputs()) {
    if (graph.value(input.value).is_tensor()) {
      const std::int64_t offset = graph.tensor(input.value).offset.constant().value_or(0);
      const auto [begin, is_new] = begins.try_emplace(memories[input.value.index()], offset);
      begin->second = std::min(begin->second, offset);
    }
  }
  for (std::uint32_t i = 0; i < memories.size(); ++i) {
    const auto begin = begins.find(memories[i]);
    ir::Value& value = graph.value(ir::ValueId(i));
    if (begin != begins.end() && begin->second != 0 && value.is_tensor()) {
      value.tensor().offset = value.tensor().offset - ir::Expr(begin->second);
    }
  }
}

}  // namespace

FunctionSampler::FunctionSampler(const autograd_dispatch::TensorFunction& function,
                                 const Tensors& inputs,
                                 Tensors captured,
                                 Plan plan,
                                 autograd_dispatch::TraceOptions options,
                                 std::size_t integers,
                                 const IntegerHistory* history)
    : function_(function),
      captured_(std::move(captured)),
      plan_(std::move(plan)),
      options_(options),
      integers_(integers),
      history_(history) {
  plan_.forward_backward = {};  // Which a trace does not know.
  plan_.symbols = {};
  plan_bytes_ = to_bytes(OutputWindows::without_windows(plan_));
  options_.graph_only = true;
  for (const at::Tensor& input : inputs) {
    has_history_.push_back(input.defined() && !input.is_leaf());
  }
}

// Captured tensors are behind the arguments, in order.
ExportedProgram FunctionSampler::program_of(ir::Graph graph, const Plan& plan) const {
  ExportedProgram program;
  if (plan.offsets.empty()) {
    drop_input_offsets(graph);
  }
  OutputWindows::add_to(graph, plan);
  std::size_t next = 0;
  for (ir::Input& input : graph.inputs()) {
    if (input.kind == ir::InputKind::kConstant) {
      input.name = "captured " + std::to_string(next);
      program.weights.emplace(input.name, captured_.at(next++));
    }
  }
  program.graph = std::move(graph);
  return program;
}

ExportedProgram FunctionSampler::trace_at(const Tensors& inputs) {
  ++traces_;
  Tensors arguments = inputs;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (has_history_[i] && arguments[i].is_leaf()) {
      const c10::AutoGradMode with_grad(true);
      arguments[i] = arguments[i].clone();
    }
  }
  JointTrace traced = trace_with_valid_indices(function_, arguments, options_);
  // By identity: what stands for a structure of results is a captured tensor too.
  if (!std::ranges::equal(captured_, traced.captured, [](const at::Tensor& a, const at::Tensor& b) {
        return a.is_same(b);
      })) {
    refuse_size("the function uses other tensors, or returns other numbers");
  }
  if (to_bytes(OutputWindows::without_windows(traced.plan)) != plan_bytes_) {
    refuse_size("the tensors share memory, or change, in another way");
  }
  if (std::string difference = windows_->difference(traced.plan, inputs); !difference.empty()) {
    refuse_size(difference);
  }
  return program_of(std::move(traced.graph), traced.plan);
}

// Only for results that are the graph's, in order. Where the graph writes, `trace_dynamic` does not
// ask.
Tensors FunctionSampler::run(const Tensors& inputs) const {
  bool is_pure = plan_.writes.empty() && plan_.changes.empty() && !plan_.grad_mode_after;
  for (std::uint32_t i = 0; i < plan_.outputs.size(); ++i) {
    is_pure = is_pure && plan_.outputs[i].kind == OutputPlan::Kind::kComputed &&
              plan_.outputs[i].index == i;
  }
  if (!is_pure) {
    refuse_size("the function does more than to compute");
  }
  return function_(inputs);
}

std::optional<SymbolicSizes> FunctionSampler::generalize(ir::Graph& graph,
                                                         const Tensors& inputs,
                                                         DynamicShapes shapes,
                                                         std::vector<std::string>* remarks) {
  windows_.emplace(plan_, /*replaced=*/true);
  const ir::Ranges allowed = shapes.symbols;
  shapes.symbols = clamp_to_traced_range(allowed, shapes.input_sizes, inputs, history_);
  exporter::DynamicTrace dynamic =
      exporter::trace_dynamic([this](const Tensors& sample) { return trace_at(sample); },
                              [this](const Tensors& sample) { return run(sample); },
                              program_of(graph, plan_),
                              inputs,
                              shapes);
  remarks->insert(remarks->end(), dynamic.remarks.begin(), dynamic.remarks.end());
  if (dynamic.graph.symbols().empty()) {
    return std::nullopt;
  }
  try {
    SymbolicSizes sizes(dynamic.graph, plan_.inputs, dynamic.graph.symbols());
    if (!sizes.holds(inputs)) {
      remarks->push_back("not for this call: " + sizes.difference(inputs, {}));
      return std::nullopt;
    }
    for (auto& [name, range] : dynamic.graph.symbols()) {
      const ir::Range& explored = dynamic.explored.at(name);
      range = {.low = range.low == explored.low ? allowed.at(name).low : range.low,
               .high = range.high == explored.high ? allowed.at(name).high : range.high};
    }
    windows_->write_to(plan_, windows_->take_from(dynamic.graph), sizes);
    dynamic.graph.set_name(graph.name());
    graph = std::move(dynamic.graph);
    return sizes;
  } catch (const Error& error) {
    remarks->emplace_back(error.what());
    return std::nullopt;
  }
}

bool FunctionSampler::widen(ir::Graph& graph, const Tensors& inputs, SymbolicSizes* sizes) {
  SymbolicSizes wider = *sizes;
  wider.set_ranges(graph.symbols());
  if (!wider.holds(inputs)) {
    return false;
  }
  DynamicShapes wanted{
      .symbols = {}, .input_sizes = {}, .trust_large_sizes = false, .integers = integers_};
  wanted.input_sizes.resize(inputs.size());
  for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
    if (sizes->mentions(plan_.inputs[i].argument)) {
      wanted.input_sizes[plan_.inputs[i].argument] =
          graph.tensor(std::as_const(graph).inputs()[i].value).sizes;
    }
  }
  wanted.symbols = clamp_to_traced_range(graph.symbols(), wanted.input_sizes, inputs, history_);
  windows_.emplace(plan_, /*replaced=*/false);
  ExportedProgram dynamic = program_of(graph, plan_);
  dynamic.graph.symbols() = sizes->ranges();
  const std::optional<ir::Ranges> ranges =
      exporter::widen_ranges([this](const Tensors& sample) { return trace_at(sample); },
                             [this](const Tensors& sample) { return run(sample); },
                             dynamic,
                             inputs,
                             wanted);
  if (!ranges) {
    return false;
  }
  for (const auto& [name, range] : *ranges) {
    const bool is_moved = range != dynamic.graph.symbols().at(name);
    if (is_moved && range.high < wanted.symbols.at(name).high) {
      graph.symbols().find(name)->second.high = range.high;
    }
  }
  sizes->set_ranges(*ranges);
  return sizes->holds(inputs);
}

}  // namespace kiln
