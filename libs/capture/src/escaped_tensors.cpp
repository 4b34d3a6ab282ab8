#include "escaped_tensors.hpp"

#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "kiln/base/error.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/capture/shadow_inputs.hpp"
#include "kiln/ir/dead_code.hpp"
#include "randomness.hpp"

namespace kiln::capture {
namespace {

// Mutations stay, as they were recorded: the values wanted are those after the last one.
ir::Graph program_of(const ir::Graph& recorded, const std::vector<ir::ValueId>& wanted) {
  ir::Graph graph = recorded;
  graph.outputs().clear();
  for (const ir::ValueId value : wanted) {
    graph.add_output({.value = value, .kind = ir::OutputKind::kUser});
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    graph.node(ir::NodeId(i)).effectful = false;
  }
  return ir::remove_dead_code(graph, {.keep_random = false});
}

// `aten.ones_like.default`, `aten.new_zeros.default`: elements of the operand do not matter.
bool takes_metadata_only(std::string_view target) {
  const std::size_t begin = target.find('.') + 1;
  const std::string_view name = target.substr(begin, target.find('.', begin) - begin);
  return name.starts_with("new_") || name.ends_with("_like");
}

// By value, whether it depends on what the user passes.
std::vector<bool> dependent_values(const ir::Graph& graph) {
  std::vector<bool> depends(graph.values().size(), false);
  const auto mark = [&](ir::ValueId value) {
    if (value.valid()) {
      depends[value.index()] = true;
    }
  };
  for (const ir::Input& input : graph.inputs()) {
    if (input.kind != ir::InputKind::kConstant) {
      mark(input.value);
    }
  }
  for (const ir::Node& node : graph.nodes()) {
    if (takes_metadata_only(node.target)) {
      continue;
    }
    bool any = false;
    ir::for_each_operand(node, [&](ir::ValueId operand) { any = any || depends[operand.index()]; });
    if (any) {
      std::for_each(node.results.begin(), node.results.end(), mark);
      for (const std::uint32_t argument : node.mutates) {
        ir::for_each_value(node.arguments[argument], mark);
      }
    }
  }
  return depends;
}

// A tangent: some gradient that comes from outside.
at::Tensor ones_of(const ir::TensorMeta& meta) {
  std::vector<std::int64_t> sizes, strides;
  for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
    sizes.push_back(meta.sizes[i].constant().value());
    strides.push_back(meta.strides[i].constant().value());
  }
  return at::empty_strided(sizes, strides, static_cast<c10::ScalarType>(meta.dtype)).fill_(1);
}

std::vector<at::Tensor> arguments_of(const ir::Graph& graph,
                                     std::vector<at::Tensor> inputs,
                                     const std::vector<at::Tensor>& captured) {
  const auto users = static_cast<std::ptrdiff_t>(inputs.size());
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  const std::vector<at::Tensor> copies = make_shadow_inputs(inputs);
  auto user = copies.begin();
  auto constant = copies.begin() + users;
  std::vector<at::Tensor> arguments;
  for (const ir::Input& input : graph.inputs()) {
    arguments.push_back(input.kind == ir::InputKind::kUser ? *user++
                        : input.kind == ir::InputKind::kConstant
                            ? *constant++
                            : ones_of(graph.tensor(input.value)));
  }
  return arguments;
}

// How often `tensors`, and those of them that are views of it, refer to `impl`.
std::size_t references_by(const std::vector<at::Tensor>& tensors, const c10::TensorImpl* impl) {
  std::size_t count = 0;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const at::Tensor& tensor : tensors) {
    count += tensor.unsafeGetTensorImpl() == impl ? 1 : 0;
    const auto* view = tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second
                           ? torch::autograd::impl::get_view_autograd_meta(tensor)
                           : nullptr;
    if (view == nullptr) {
      continue;
    }
    const auto is_of = [&](const torch::autograd::ViewInfo& info) {
      return info.base_.unsafeGetTensorImpl() == impl ? 1 : 0;
    };
    count += view->has_bw_view() ? is_of(view->get_backward_view()) : 0;
    count += view->has_fw_view() && !view->shared_view_info() ? is_of(view->get_forward_view()) : 0;
  }
  return count;
}

std::string origin_of(const ir::Graph& graph, ir::ValueId value) {
  const ir::Node& node = graph.node(graph.value(value).producer);
  std::string text = node.target;
  if (!node.provenance.source.empty()) {
    text += " at " + node.provenance.source;
  }
  if (!node.provenance.module_path.empty()) {
    text += " in " + node.provenance.module_path;
  }
  return text;
}

}  // namespace

void EscapedTensors::watch(const at::Tensor& tensor, ir::ValueId value, bool has_values) {
  watched_.push_back({WeakTensor(tensor.getIntrusivePtr()), value, has_values});
}

std::vector<std::string> EscapedTensors::compute(const ir::Graph& graph,
                                                 const std::vector<at::Tensor>& inputs,
                                                 const std::vector<at::Tensor>& captured,
                                                 const std::vector<at::Tensor>& returned) const {
  const std::vector<bool> varies = dependent_values(graph);
  std::vector<at::Tensor> tensors;
  std::vector<ir::ValueId> values;
  std::vector<std::string> origins;
  // What was reshaped in place was watched before and after; it is what it was last.
  std::unordered_set<const c10::TensorImpl*> seen;
  for (auto entry = watched_.rbegin(); entry != watched_.rend(); ++entry) {
    auto alive = entry->tensor.lock();
    if (!alive || alive.use_count() == 1 + references_by(returned, alive.get()) ||
        !seen.insert(alive.get()).second) {
      continue;
    }
    if (varies[entry->value.index()]) {
      origins.push_back(origin_of(graph, entry->value));
    }
    if (!entry->has_values) {
      tensors.emplace_back(std::move(alive));
      values.push_back(entry->value);
    }
  }
  std::ranges::reverse(origins);
  if (tensors.empty()) {
    return origins;
  }
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> computed;
  torch::jit::Stack no_arguments;
  // What it draws is drawn again by the call itself.
  PrivateGenerator().run(no_arguments, 0, std::nullopt, [&] {
    computed = Interpreter(program_of(graph, values)).run(arguments_of(graph, inputs, captured));
  });
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    c10::TensorImpl* impl = tensors[i].unsafeGetTensorImpl();
    ensure(
        computed[i].sizes() == tensors[i].sizes() && computed[i].strides() == tensors[i].strides(),
        "a recorded tensor has another geometry when its graph runs");
    impl->set_storage_keep_dtype(computed[i].storage());
    impl->set_storage_offset(computed[i].storage_offset());
    impl->set_autograd_meta(nullptr);
  }
  return origins;
}

}  // namespace kiln::capture
