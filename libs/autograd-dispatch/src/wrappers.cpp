#include <ATen/Functions.h>
#include <ATen/native/Resize.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "relations.hpp"
#include "wrapper.hpp"

namespace kiln::autograd_dispatch {
namespace {

class StartGradients : public Wrapper {
 public:
  explicit StartGradients(std::vector<std::uint32_t> arguments)
      : arguments_(std::move(arguments)) {}

  void before(Call& call) const override {
    for (const std::uint32_t argument : arguments_) {
      call.arguments[argument].set_requires_grad(true);
    }
  }

 private:
  std::vector<std::uint32_t> arguments_;
};

class ResizeStorages : public Wrapper {
 public:
  explicit ResizeStorages(const Plan& plan) {
    for (const ChangePlan& change : plan.changes) {
      if (change.bytes) {
        resized_.emplace_back(change.argument, *change.bytes);
      }
    }
  }

  void before(Call& call) const override {
    for (const auto& [argument, bytes] : resized_) {
      if (bytes != 0) {
        at::native::resize_bytes_nocuda(call.arguments[argument].storage(), bytes);
      }
    }
  }

  void after(Call& call) const override {
    for (const auto& [argument, bytes] : resized_) {
      if (bytes == 0) {
        at::native::resize_bytes_nocuda(call.arguments[argument].storage(), 0);
      }
    }
  }

 private:
  std::vector<std::pair<std::uint32_t, std::uint64_t>> resized_;
};

class GatherInputs : public Wrapper {
 public:
  explicit GatherInputs(const Plan& plan) : inputs_(plan.inputs) {}

  void before(Call& call) const override {
    call.inputs.reserve(inputs_.size());
    for (const InputPlan& input : inputs_) {
      const at::Tensor& argument = call.arguments[input.argument];
      call.inputs.push_back(input.base ? base_of(argument) : argument);
    }
  }

 private:
  std::vector<InputPlan> inputs_;
};

class LeaveGradMode : public Wrapper {
 public:
  explicit LeaveGradMode(bool enabled) : enabled_(enabled) {}

  void after(Call& /*call*/) const override { c10::GradMode::set_enabled(enabled_); }

 private:
  bool enabled_;
};

}  // namespace

std::unique_ptr<const Wrapper> start_gradients(const Plan& plan) {
  std::vector<std::uint32_t> arguments;
  for (const ChangePlan& change : plan.changes) {
    if (change.starts_requiring_grad) {
      arguments.push_back(change.argument);
    }
  }
  return std::make_unique<StartGradients>(std::move(arguments));
}

std::unique_ptr<const Wrapper> resize_storages(const Plan& plan) {
  return std::make_unique<ResizeStorages>(plan);
}

std::unique_ptr<const Wrapper> gather_inputs(const Plan& plan) {
  return std::make_unique<GatherInputs>(plan);
}

std::unique_ptr<const Wrapper> leave_grad_mode(bool enabled) {
  return std::make_unique<LeaveGradMode>(enabled);
}

std::vector<std::unique_ptr<const Wrapper>> wrappers_of(const Plan& plan) {
  const auto any_change = [&](auto&& of_kind) {
    return std::any_of(plan.changes.begin(), plan.changes.end(), of_kind);
  };
  const auto is_moved = [&](std::uint32_t argument) {
    return any_change([&](const ChangePlan& change) {
      return change.memory.has_value() && change.argument == argument;
    });
  };
  // New memories that share an argument's old one come first. What shares memory with arguments
  // that move, or is made from other outputs, comes last.
  std::vector<std::uint32_t> memories, outputs, late, views, same;
  for (std::uint32_t i = 0; i < plan.outputs.size(); ++i) {
    const OutputPlan& output = plan.outputs[i];
    const bool of_argument = output.kind == OutputPlan::Kind::kAliasOfArgument;
    if (of_argument && i >= plan.returned) {
      memories.push_back(i);
    } else if (of_argument && is_moved(output.index)) {
      late.push_back(i);
    } else if (output.kind == OutputPlan::Kind::kAliasOfOutput) {
      views.push_back(i);
    } else if (output.kind == OutputPlan::Kind::kSameAs) {
      same.push_back(i);
    } else {
      outputs.push_back(i);
    }
  }
  late.insert(late.end(), views.begin(), views.end());
  late.insert(late.end(), same.begin(), same.end());

  std::vector<std::unique_ptr<const Wrapper>> wrappers;
  if (any_change([](const ChangePlan& change) { return change.starts_requiring_grad; })) {
    wrappers.push_back(start_gradients(plan));
  }
  wrappers.push_back(gather_inputs(plan));
  if (!memories.empty()) {
    wrappers.push_back(assemble_outputs(plan, memories));
  }
  if (!plan.writes.empty() || !plan.changes.empty()) {
    wrappers.push_back(update_arguments(plan));
  }
  wrappers.push_back(assemble_outputs(plan, outputs));
  if (!plan.changes.empty()) {
    wrappers.push_back(move_arguments(plan));
  }
  if (!late.empty()) {
    wrappers.push_back(assemble_outputs(plan, late));
  }
  if (any_change([](const ChangePlan& change) { return change.bytes.has_value(); })) {
    wrappers.push_back(resize_storages(plan));
  }
  if (plan.grad_mode_after) {
    wrappers.push_back(leave_grad_mode(*plan.grad_mode_after));
  }
  return wrappers;
}

}  // namespace kiln::autograd_dispatch
