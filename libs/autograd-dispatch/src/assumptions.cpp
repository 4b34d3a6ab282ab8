#include "assumptions.hpp"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "relations.hpp"

namespace kiln::autograd_dispatch {
namespace {

std::string assumed(std::size_t argument, const std::string& what) {
  return "at compilation time it was assumed that argument " + std::to_string(argument) +
         " would " + what + ", but at runtime this was not the case";
}

}  // namespace

Assumptions::Assumptions(const Plan& plan)
    : count_(plan.arguments),
      grad_mode_(plan.grad_mode),
      differentiates_(std::find(plan.requires_grad.begin(), plan.requires_grad.end(), true) !=
                      plan.requires_grad.end()),
      requires_grad_(plan.requires_grad),
      aliases_(plan.aliases),
      offsets_(plan.offsets) {
  for (const InputPlan& input : plan.inputs) {
    if (input.base) {
      bases_.push_back(input);
    }
  }
  for (const WritePlan& write : plan.writes) {
    written_.push_back(plan.inputs[write.input].argument);
  }
  for (const ChangePlan& change : plan.changes) {
    written_.push_back(change.argument);
  }
  for (const std::uint32_t input : plan.backward_writes) {
    written_.push_back(plan.inputs[input].argument);
  }
}

std::string Assumptions::violated_by(const Tensors& arguments) const {
  if (arguments.size() != count_) {
    return "the function was compiled for " + std::to_string(count_) + " tensors, got " +
           std::to_string(arguments.size());
  }
  if (c10::GradMode::is_enabled() != grad_mode_ && differentiates_) {
    return std::string("the function was compiled with grad mode ") + (grad_mode_ ? "on" : "off");
  }
  if (grad_mode_) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!requires_grad_[i] && arguments[i].defined() && arguments[i].requires_grad()) {
        return assumed(i, "not require grad");
      }
    }
  }
  if (!aliases_.empty()) {
    if (std::string why = aliases_violated_by(arguments); !why.empty()) {
      return why;
    }
  }
  if (std::string why = offsets_violated_by(arguments); !why.empty()) {
    return why;
  }
  if (!written_.empty()) {
    if (std::string why = writes_violated_by(arguments); !why.empty()) {
      return why;
    }
  }
  return bases_.empty() ? std::string() : bases_violated_by(arguments);
}

// Arguments that shared memory in the trace may have become one input of the graph.
std::string Assumptions::aliases_violated_by(const Tensors& arguments) const {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const AliasPlan& alias = aliases_[i];
    const at::Tensor& argument = arguments[i];
    if (alias.same_as != i && !argument.is_same(arguments[alias.same_as])) {
      return assumed(i, "be a duplicate of argument " + std::to_string(alias.same_as));
    }
    if (alias.first != i &&
        (!share_storage(argument, arguments[alias.first]) ||
         argument.storage_offset() - arguments[alias.first].storage_offset() != alias.offset)) {
      return assumed(i, "share memory with argument " + std::to_string(alias.first));
    }
  }
  return {};
}

// What as_strided finds depends on where its tensor begins.
std::string Assumptions::offsets_violated_by(const Tensors& arguments) const {
  for (const OffsetPlan& place : offsets_) {
    const at::Tensor& argument = arguments[place.argument];
    if (argument.defined() && argument.storage_offset() != place.offset) {
      return assumed(place.argument,
                     "begin at element " + std::to_string(place.offset) + " of its storage");
    }
  }
  return {};
}

// An argument may share memory with a mutated one only if it did so in the trace.
std::string Assumptions::writes_violated_by(const Tensors& arguments) const {
  const auto first = [&](std::size_t i) { return aliases_.empty() ? i : aliases_[i].first; };
  for (const std::uint32_t written : written_) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (first(i) != first(written) && share_storage(arguments[i], arguments[written])) {
        return assumed(
            i, "not share memory with argument " + std::to_string(written) + ", which is written");
      }
      if (!aliases_.empty() && i != written && aliases_[i].same_as != aliases_[written].same_as &&
          arguments[i].defined() && arguments[i].is_same(arguments[written])) {
        return assumed(i, "not be a duplicate of argument " + std::to_string(written));
      }
    }
  }
  return {};
}

std::string Assumptions::bases_violated_by(const Tensors& arguments) const {
  for (const InputPlan& input : bases_) {
    const at::Tensor base = base_of(arguments[input.argument]);
    if (geometry_of(base) != *input.base) {
      return assumed(input.argument, "be a view of a tensor of another shape");
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (share_storage(arguments[i], base) && !base_of(arguments[i]).is_same(base) &&
          (arguments[i].is_view() || arguments[i].requires_grad())) {
        return assumed(
            i, "be a view of the same tensor as argument " + std::to_string(input.argument));
      }
    }
  }
  return {};
}

}  // namespace kiln::autograd_dispatch
