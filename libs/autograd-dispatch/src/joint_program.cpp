#include "joint_program.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <ATen/native/Resize.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <string>

#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"
#include "reachability.hpp"
#include "relations.hpp"
#include "tensor_hooks.hpp"

namespace kiln::autograd_dispatch {
namespace {

std::string argument_name(std::size_t position) {
  return "argument " + std::to_string(position);
}

// Autograd has a new idea of where `now` comes from.
bool has_new_history(const TensorState& before, const TensorState& now) {
  return now.requires_grad && !now.leaf && now.history.function != before.history.function;
}

// Settings that a compiled call would not leave changed.
struct Settings {
  bool cpu = at::autocast::is_autocast_enabled(at::kCPU);
  bool cuda = at::autocast::is_autocast_enabled(at::kCUDA);
  at::ScalarType cpu_dtype = at::autocast::get_autocast_dtype(at::kCPU);
  at::ScalarType cuda_dtype = at::autocast::get_autocast_dtype(at::kCUDA);
  caffe2::TypeMeta default_dtype = c10::get_default_dtype();

  void restore() const {
    at::autocast::set_autocast_enabled(at::kCPU, cpu);
    at::autocast::set_autocast_enabled(at::kCUDA, cuda);
    at::autocast::set_autocast_dtype(at::kCPU, cpu_dtype);
    at::autocast::set_autocast_dtype(at::kCUDA, cuda_dtype);
    c10::set_default_dtype(default_dtype);
  }
  bool operator==(const Settings&) const = default;
};

std::vector<TensorState> states_of(const Tensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

void require_shape(const at::Tensor& tensor, const TensorState& before, const std::string& what) {
  if (tensor.defined() && geometry_of(tensor) != before.geometry) {
    throw Error(ErrorCode::kUnsupported,
                what + " is an input that had its metadata mutated in the backward");
  }
}

// Neither captured tensors nor tangents may be written while gradients are computed: nobody would
// know of it.
void require_unwritten(const Tensors& tensors,
                       const std::vector<TensorState>& before,
                       const std::string& what) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    require_shape(tensors[i], before[i], what + " " + std::to_string(i));
    if (tensors[i].defined() && version_of(tensors[i]) != before[i].version) {
      throw Error(ErrorCode::kUnsupported,
                  what + " " + std::to_string(i) +
                      " is an input to the backward that was mutated during the backward");
    }
  }
}

}  // namespace

Tensors JointProgram::call(const Tensors& arguments) {
  const Settings settings;
  Tensors outputs;
  {
    const at::AutoGradMode mode(c10::GradMode::is_enabled());
    const bool before = c10::GradMode::is_enabled();
    try {
      outputs = function_(arguments);
    } catch (...) {
      settings.restore();
      throw;
    }
    if (c10::GradMode::is_enabled() != before) {
      grad_mode_after_ = !before;
    }
  }
  if (const Settings left; left != settings) {
    settings.restore();
    throw Error(ErrorCode::kUnsupported,
                left.default_dtype != settings.default_dtype
                    ? "the function leaves the default dtype changed"
                    : "the function leaves autocast switched on or off, or with another type");
  }
  return outputs;
}

Tensors JointProgram::run(const Tensors& sources) {
  InputLayout::ShadowInputs shadows = layout_.shadow_inputs(sources);
  const std::vector<TensorState> arguments_before = states_of(shadows.arguments);
  const std::vector<TensorState> inputs_before = states_of(shadows.inputs);

  Tensors originals;
  for (const at::Tensor& argument : shadows.arguments) {
    const capture::PauseRecording unrecorded;
    originals.push_back(argument.defined() ? argument.detach() : argument);
  }

  Tensors outputs = call(shadows.arguments);
  std::vector<std::size_t> held = capture::references_to_borrowed();

  for (const at::Tensor& source : sources) {
    if (source.defined() && source.is_leaf() && source.grad().defined()) {
      throw Error(ErrorCode::kUnsupported,
                  "the function calls backward() inside, which writes gradients that no compiled "
                  "function can; use torch::autograd::grad");
    }
  }
  for (const at::Tensor& output : outputs) {
    if (output.defined()) {
      capture::note_use(output);
    }
  }
  captured_.require_unchanged();
  captured_.require_independent();
  captured_tensors_ = capture::captured_so_far();
  require_apart(shadows, arguments_before);

  find_writes(shadows, inputs_before);
  if (must_merge_) {
    return {};
  }
  returned_ = static_cast<std::uint32_t>(outputs.size());
  Tensors arguments = shadows.arguments, inputs = shadows.inputs;
  arguments.insert(arguments.end(), captured_tensors_.begin(), captured_tensors_.end());
  inputs.insert(inputs.end(), captured_tensors_.begin(), captured_tensors_.end());
  originals.insert(originals.end(), captured_tensors_.begin(), captured_tensors_.end());
  outputs_.emplace(
      std::move(arguments), std::move(originals), std::move(inputs), std::move(outputs));
  std::ranges::transform(
      capture::references_to_borrowed(), held, held.begin(), std::minus<>());  // By this object.
  find_changes(shadows, arguments_before);
  for (WritePlan& write : writes_) {
    write.result = outputs_->add_computed(shadows.inputs[write.input]);
  }
  outputs_->run();

  const Tensors gradients = differentiate(sources, shadows.inputs);
  capture::require_lasting_memory(held);  // Until now, what is saved for the backward holds it.
  Tensors results = outputs_->computed();
  results.insert(results.end(), gradients.begin(), gradients.end());
  results.insert(results.end(), outputs_->arguments().begin(), outputs_->arguments().end());
  results.insert(results.end(), outputs_->outputs().begin(), outputs_->outputs().end());
  return results;
}

// A captured tensor that an argument shares memory with: the trace has the argument's shadow apart
// from it, which is right only as long as neither is written.
void JointProgram::require_apart(const InputLayout::ShadowInputs& shadows,
                                 const std::vector<TensorState>& before) const {
  for (std::size_t i = 0; i < shadows.arguments.size(); ++i) {
    for (const at::Tensor& captured : captured_tensors_) {
      if (share_storage(layout_.arguments()[i], captured) &&
          (capture::is_written(before[i].storage) || capture::is_written(captured.storage()))) {
        throw Error(ErrorCode::kUnsupported,
                    argument_name(i) +
                        " shares memory with a tensor that the function captures, and one of them "
                        "is written");
      }
    }
  }
}

void JointProgram::find_writes(const InputLayout::ShadowInputs& shadows,
                               const std::vector<TensorState>& before) {
  for (std::uint32_t i = 0; i < shadows.inputs.size(); ++i) {
    if (!shadows.inputs[i].defined() || !before[i].storage ||
        !capture::is_written(before[i].storage)) {
      continue;
    }
    const bool visible = has_new_history(before[i], TensorState(shadows.inputs[i]));
    const std::uint32_t argument = layout_.inputs()[i].argument;
    const bool overlaps =
        (visible && layout_.overlaps_another(argument)) || layout_.is_expanded_view(argument);
    if (!layout_.inputs()[i].base && overlaps) {
      must_merge_ = argument;
      return;
    }
    if (!visible) {
      continue;
    }
    writes_.push_back({.input = i, .result = {}, .visible = true});
  }
}

void JointProgram::find_changes(const InputLayout::ShadowInputs& shadows,
                                const std::vector<TensorState>& before) {
  const std::vector<TensorState> after = states_of(shadows.arguments);
  for (std::uint32_t i = 0; i < shadows.arguments.size(); ++i) {
    const at::Tensor& argument = shadows.arguments[i];
    const bool repeated = std::any_of(
        shadows.arguments.begin(), shadows.arguments.begin() + i, [&](const at::Tensor& other) {
          return other.defined() && other.is_same(argument);
        });
    if (!argument.defined() || repeated) {
      continue;
    }
    const TensorState& now = after[i];
    const bool freed = now.bytes == 0 && argument.numel() != 0;
    if (freed) {
      without_memory_.push_back(layout_.input_of(i));
      // The backward, recorded next, may read it; what its elements are does not matter there.
      at::native::resize_bytes_nocuda(now.storage,
                                      at::detail::computeStorageNbytes(argument.sizes(),
                                                                       argument.strides(),
                                                                       argument.element_size(),
                                                                       argument.storage_offset()));
    }
    ChangePlan change{.argument = i};
    bool changed = false;
    if (now.storage.unsafeGetStorageImpl() != before[i].storage.unsafeGetStorageImpl()) {
      if (has_new_history(before[i], now)) {
        throw Error(ErrorCode::kUnsupported,
                    argument_name(i) +
                        " is set_ to other memory, but the input has other mutations that we "
                        "cannot keep with it: autograd sees a write to it");
      }
      change.memory = outputs_->add_memory_of(i);
      if (freed) {
        change.bytes = 0;
      }
      changed = true;
    } else if (now.bytes != before[i].bytes) {
      require_resizable(i, before[i], now);
      change.bytes = now.bytes;
      changed = true;
    } else if (now.geometry != before[i].geometry) {
      change.geometry = now.geometry;
      change.geometry->offset -= before[i].geometry.offset;
      change.visible = layout_.is_merged(i) ? now.requires_grad : has_new_history(before[i], now);
      changed = true;
    }
    if (now.requires_grad && !before[i].requires_grad && now.leaf) {
      change.starts_requiring_grad = changed = true;
    }
    if (!now.requires_grad && before[i].requires_grad) {
      change.stops_requiring_grad = changed = true;
    }
    if (!changed && now.version != before[i].version) {
      if (capture::is_written(before[i].storage)) {
        written_arguments_.push_back(i);
      } else {
        change.touched = changed = true;
      }
    }
    if (changed) {
      changes_.push_back(std::move(change));
    }
  }
}

// A storage is allocated or freed as a whole, by who has it for itself.
void JointProgram::require_resizable(std::uint32_t argument,
                                     const TensorState& before,
                                     const TensorState& now) const {
  const std::string resized = "the function resizes the storage of " + argument_name(argument);
  if (has_new_history(before, now)) {
    throw Error(ErrorCode::kUnsupported,
                resized +
                    ", but the input has other mutations that we cannot keep with it: autograd "
                    "sees a write to it");
  }
  if (before.bytes != 0 && now.bytes != 0) {
    throw Error(ErrorCode::kUnsupported,
                resized + "; a storage may only be allocated (from 0 bytes) or freed (to 0 bytes)");
  }
  if (layout_.overlaps_another(argument) || now.geometry != before.geometry) {
    throw Error(ErrorCode::kUnsupported,
                resized + ", which changes its shape too or shares memory with another argument");
  }
}

// A leaf that the function has made and returns would get its gradient from what else it returns.
void JointProgram::require_unused_leaves(const Tensors& differentiable) const {
  const Tensors& known = outputs_->arguments();
  Tensors leaves;
  for (const at::Tensor& output : outputs_->outputs()) {
    const auto is_output = [&](const at::Tensor& other) { return other.is_same(output); };
    if (output.defined() && output.requires_grad() && output.is_leaf() &&
        std::none_of(known.begin(), known.end(), is_output)) {
      leaves.push_back(output);
    }
  }
  for (const std::vector<std::uint32_t>& results :
       autograd_dispatch::reached_by(differentiable, leaves)) {
    if (!results.empty()) {
      throw Error(ErrorCode::kUnsupported,
                  "the function returns a leaf that it has made, and something computed from it: "
                  "the leaf would get no gradient. Pass it as an argument, or return it detached");
    }
  }
}

Tensors JointProgram::differentiate(const Tensors& sources, const Tensors& watched) {
  torch::autograd::variable_list differentiable, tangents, targets;
  const auto add = [&](const at::Tensor& result, std::size_t position) {
    tangents_.push_back(static_cast<std::uint32_t>(position));
    differentiable.push_back(result);
    // Some tangent, so that the backward can be recorded.
    tangents.push_back(capture::make_placeholder_like(result));
    capture::declare_input(tangents.back(), ir::InputKind::kTangent);
  };
  const Tensors& computed = outputs_->computed();
  for (std::uint32_t i = 0; i < computed.size(); ++i) {
    if (computed[i].requires_grad() && !outputs_->is_new_leaf(i)) {
      add(computed[i], i);
    }
  }
  for (std::size_t i = 0; i < outputs_->node_aliases().size(); ++i) {
    add(outputs_->node_aliases()[i].tensor, computed.size() + i);
  }
  if (differentiable.empty()) {
    return {};
  }
  require_unused_leaves(differentiable);
  for (std::uint32_t i = 0; i < sources.size(); ++i) {
    if (sources[i].defined() && sources[i].requires_grad() && sources[i].is_leaf()) {
      gradients_.push_back(i);
      targets.push_back(sources[i]);
    }
  }
  for (std::size_t i = 0; i < captured_tensors_.size(); ++i) {
    if (captured_tensors_[i].requires_grad()) {
      gradients_.push_back(static_cast<std::uint32_t>(sources.size() + i));
      targets.push_back(captured_tensors_[i]);
    }
  }
  if (targets.empty()) {
    return {};
  }

  reached_by_ = autograd_dispatch::reached_by(differentiable, targets);
  const std::vector<TensorState> inputs_before = states_of(watched);
  std::vector<bool> written_before;
  for (const TensorState& input : inputs_before) {
    written_before.push_back(input.storage && capture::is_written(input.storage));
  }
  const std::vector<TensorState> captured_before = states_of(captured_tensors_);
  const std::vector<TensorState> tangents_before = states_of(tangents);
  const capture::BackwardScope backward;
  const WithoutTensorHooks no_hooks(captured_tensors_);
  torch::autograd::variable_list gradients = torch::autograd::grad(differentiable,
                                                                   targets,
                                                                   tangents,
                                                                   /*retain_graph=*/false,
                                                                   /*create_graph=*/false,
                                                                   /*allow_unused=*/true);
  find_backward_writes(watched, inputs_before, written_before);
  require_unwritten(captured_tensors_, captured_before, "captured tensor");
  require_unwritten(tangents, tangents_before, "the gradient of result");
  return gradients;
}

void JointProgram::find_backward_writes(const Tensors& inputs,
                                        const std::vector<TensorState>& before,
                                        const std::vector<bool>& written_before) {
  for (std::uint32_t i = 0; i < inputs.size(); ++i) {
    require_shape(inputs[i], before[i], "input " + std::to_string(i));
    if (!inputs[i].defined() || version_of(inputs[i]) == before[i].version) {
      continue;
    }
    const InputPlan& input = layout_.inputs()[i];
    if (written_before[i] || input.base || layout_.overlaps_another(input.argument)) {
      throw Error(ErrorCode::kUnsupported,
                  "input " + std::to_string(i) +
                      " was mutated during the backward; it is also written in the forward, or "
                      "shares memory with another input");
    }
    backward_writes_.push_back(i);
  }
}

}  // namespace kiln::autograd_dispatch
