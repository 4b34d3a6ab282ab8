#include "input_layout.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <string>

#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/capture/shadow_inputs.hpp"
#include "memory_overlap.hpp"
#include "relations.hpp"

namespace kiln::autograd_dispatch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The same memory, one step behind a leaf: what a function may write in place.
struct Leave : torch::autograd::Function<Leave> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& leaf) { return leaf.detach(); }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return gradients;
  }
};

bool has_history(const at::Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad() && !tensor.is_leaf();
}

at::Tensor stand_in(const at::Tensor& original, const at::Tensor& shadow) {
  if (!has_history(original) || c10::InferenceMode::is_enabled()) {
    return shadow;
  }
  const at::AutoGradMode differentiable(true);
  return Leave::apply(shadow);
}

bool elements_overlap(const at::Tensor& a, const at::Tensor& b) {
  return share_storage(a, b) && overlap(geometry_of(a),
                                        static_cast<std::int64_t>(a.element_size()),
                                        geometry_of(b),
                                        static_cast<std::int64_t>(b.element_size()));
}

bool is_expanded(const at::Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.stride(i) == 0 && tensor.size(i) > 1) {
      return true;
    }
  }
  return false;
}

Error not_one_base(std::uint32_t argument, const std::string& why) {
  return Error(ErrorCode::kUnsupported,
               "argument " + std::to_string(argument) +
                   " shares memory with another one, and autograd sees a write to it; that needs "
                   "all of them to be views of one tensor, but " +
                   why);
}

}  // namespace

InputLayout::InputLayout(Tensors arguments)
    : arguments_(std::move(arguments)), merged_(arguments_.size(), false) {
  for (std::uint32_t i = 0; i < arguments_.size(); ++i) {
    same_as_.push_back(i);
    first_.push_back(i);
    component_.push_back(i);
    for (std::uint32_t j = i; j-- > 0;) {
      if (arguments_[i].defined() && arguments_[j].is_same(arguments_[i])) {
        same_as_[i] = j;
      }
      if (share_storage(arguments_[i], arguments_[j])) {
        first_[i] = j;
      }
    }
  }
  for (std::uint32_t i = 0; i < arguments_.size(); ++i) {
    for (std::uint32_t j = 0; j < i; ++j) {
      if (component_[i] != component_[j] && elements_overlap(arguments_[i], arguments_[j])) {
        const std::uint32_t kept = std::min(component_[i], component_[j]);
        const std::uint32_t gone = std::max(component_[i], component_[j]);
        std::replace(component_.begin(), component_.end(), gone, kept);
      }
    }
  }
  arrange();
}

void InputLayout::arrange() {
  inputs_.clear();
  input_of_.assign(arguments_.size(), 0);
  for (std::uint32_t i = 0; i < arguments_.size(); ++i) {
    const std::uint32_t leader = is_merged(i) ? first_[i] : same_as_[i];
    if (leader != i) {
      input_of_[i] = input_of_[leader];
      continue;
    }
    input_of_[i] = static_cast<std::uint32_t>(inputs_.size());
    InputPlan input{.argument = i};
    if (is_merged(i)) {
      input.base = geometry_of(common_base(i));
      for (std::uint32_t j = i; j < arguments_.size(); ++j) {
        // Any member leads to the base, if autograd knows it for a view of it.
        if (first_[j] == i && base_of(arguments_[j]).is_same(common_base(i))) {
          input.argument = j;
          break;
        }
      }
    }
    inputs_.push_back(std::move(input));
  }
}

bool InputLayout::is_merged(std::uint32_t argument) const {
  return merged_[first_[argument]];
}

bool InputLayout::overlaps_another(std::uint32_t argument) const {
  for (std::uint32_t i = 0; i < arguments_.size(); ++i) {
    if (component_[i] == component_[argument] && same_as_[i] != same_as_[argument]) {
      return true;
    }
  }
  return false;
}

bool InputLayout::is_expanded_view(std::uint32_t argument) const {
  return is_expanded(arguments_[argument]) && !is_expanded(base_of(arguments_[argument]));
}

// The tensor that the arguments on the storage of `argument` are views of: that of the first for
// which it matters.
at::Tensor InputLayout::common_base(std::uint32_t argument) const {
  at::Tensor base;
  for (std::uint32_t i = 0; i < arguments_.size(); ++i) {
    const at::Tensor& member = arguments_[i];
    if (first_[i] == first_[argument] &&
        (!base.defined() || (member.requires_grad() && !base.requires_grad()))) {
      base = base_of(member);
    }
  }
  return base;
}

void InputLayout::merge(std::uint32_t argument) {
  const at::Tensor base = common_base(argument);
  for (std::uint32_t i = 0; i < arguments_.size(); ++i) {
    const at::Tensor& member = arguments_[i];
    if (first_[i] != first_[argument]) {
      continue;
    }
    const bool view = base_of(member).is_same(base);
    if (!view && (member.requires_grad() || member.is_view())) {
      throw not_one_base(argument, "argument " + std::to_string(i) + " is not a view of it");
    }
    if (member.scalar_type() != base.scalar_type() || member.is_conj() != base.is_conj() ||
        member.is_neg() != base.is_neg()) {
      throw not_one_base(argument, "argument " + std::to_string(i) + " has another type");
    }
    if (link_of(member) == Link::kCustomFunction) {
      throw not_one_base(argument,
                         "argument " + std::to_string(i) + " comes from a custom function");
    }
  }
  merged_[first_[argument]] = true;
  arrange();
}

Tensors InputLayout::sources() const {
  Tensors sources;
  for (const InputPlan& input : inputs_) {
    const std::uint32_t i = input.argument;
    sources.push_back(input.base ? common_base(i) : arguments_[i]);
  }
  // Strangers on one storage each get a storage of their own.
  for (std::uint32_t i = 0; i < arguments_.size(); ++i) {
    if (component_[i] != i || first_[i] == i || is_merged(i)) {
      continue;
    }
    Tensors members;
    std::vector<std::uint32_t> positions;
    for (std::uint32_t j = i; j < arguments_.size(); ++j) {
      if (component_[j] == i && same_as_[j] == j) {
        members.push_back(arguments_[j]);
        positions.push_back(input_of_[j]);
      }
    }
    const Tensors apart = capture::make_shadow_inputs(members);
    for (std::size_t j = 0; j < apart.size(); ++j) {
      sources[positions[j]] = apart[j];
    }
  }
  return sources;
}

InputLayout::ShadowInputs InputLayout::shadow_inputs(const Tensors& sources) const {
  const capture::PauseRecording unrecorded;
  ShadowInputs result;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const std::uint32_t argument = inputs_[i].argument;
    const at::Tensor original = inputs_[i].base ? common_base(argument) : arguments_[argument];
    result.inputs.push_back(stand_in(original, sources[i]));
  }
  for (std::uint32_t i = 0; i < arguments_.size(); ++i) {
    const at::Tensor& original = arguments_[i];
    const at::Tensor& input = result.inputs[input_of_[i]];
    if (same_as_[i] != i) {
      result.arguments.push_back(result.arguments[same_as_[i]]);
    } else if (!is_merged(i) || common_base(i).is_same(original)) {
      result.arguments.push_back(input);
    } else {
      const Link link = link_of(original);
      const at::AutoGradMode mode(link == Link::kView || link == Link::kOneOfSeveral);
      const at::Tensor from = link == Link::kNone ? input.detach() : input;
      result.arguments.push_back(
          from.as_strided(original.sizes(), original.strides(), original.storage_offset()));
      if (original.requires_grad() && !result.arguments.back().requires_grad()) {
        result.arguments.back().requires_grad_();
      }
    }
  }
  return result;
}

std::vector<AliasPlan> InputLayout::aliases() const {
  std::vector<AliasPlan> aliases;
  bool any = false;
  for (std::uint32_t i = 0; i < arguments_.size(); ++i) {
    any = any || first_[i] != i;
    const std::int64_t offset =
        first_[i] == i ? 0
                       : arguments_[i].storage_offset() - arguments_[first_[i]].storage_offset();
    aliases.push_back({.first = first_[i], .same_as = same_as_[i], .offset = offset});
  }
  if (!any) {
    aliases.clear();
  }
  return aliases;
}

}  // namespace kiln::autograd_dispatch
