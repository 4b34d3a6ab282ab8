// What a recorder knows of tensors: which values they are, and what to make of one that is none.

#include <ATen/Functions.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "arguments.hpp"
#include "dry_run.hpp"
#include "kiln/base/error.hpp"
#include "kiln/capture/convert.hpp"
#include "recorder.hpp"

namespace kiln::capture {

ir::TensorMeta Recorder::describe(const at::Tensor& tensor) {
  if (tensor.is_sparse() || tensor.is_sparse_csr()) {
    throw Error(ErrorCode::kUnsupported,
                "the program has a sparse tensor, which no graph describes; make it dense first "
                "(an embedding bag with sparse gradients: take them without sparse)");
  }
  ir::TensorMeta meta = meta_of(tensor);
  meta.storage = values_.storage_of(tensor, graph_);
  return meta;
}

void Recorder::add_input(const at::Tensor& tensor, ir::InputKind kind) {
  ir::TensorMeta meta = tensor.defined() ? describe(tensor) : ir::TensorMeta();
  const ir::ValueId value = graph_.add_input("in" + next_name(), std::move(meta), kind);
  if (tensor.defined() && !values_.find(tensor)) {
    values_.set(tensor, value);
  }
}

void Recorder::add_argument(const at::Tensor& tensor) {
  add_input(tensor, ir::InputKind::kUser);
  if (tensor.defined()) {
    valueless_.add_argument(tensor);
  }
}

void Recorder::add_output(const at::Tensor& tensor) {
  ir::Output output{.value = {}, .kind = ir::OutputKind::kUser, .input = 0, .name = {}};
  if (tensor.defined()) {
    require_initialized(tensor, "the program returns");
    output.value = value_of(tensor);
    if (graph_.value(output.value).producer.valid()) {
      graph_.value(output.value).tensor().requires_grad = tensor.requires_grad();
    }
  }
  graph_.add_output(std::move(output));
}

ir::ValueId Recorder::value_of(const at::Tensor& tensor) {
  if (const auto value = values_.find(tensor)) {
    prefer_leaf(tensor, *value);
    return *value;
  }
  if (tensor.device().is_cpu() && tensor.dim() == 0 &&
      tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    return literal(tensor);
  }
  if (tensor.has_storage() && values_.knows_storage_of(tensor) &&
      !external_.contains(tensor.storage().unsafeGetStorageImpl())) {
    if (const auto base = values_.any_on_storage_of(tensor)) {
      return window(tensor, *base);
    }
  }
  return capture(tensor);
}

// A tensor and what autograd unpacks for it again are two objects.
static bool has_one_gradient(const at::Tensor& a, const at::Tensor& b) {
  return torch::autograd::impl::gradient_edge(a) == torch::autograd::impl::gradient_edge(b);
}

// A parameter and an alias of it that was detached before are one value: that of the parameter,
// which has a gradient. One value has no two gradients: two tensors that both want one are refused.
void Recorder::prefer_leaf(const at::Tensor& tensor, ir::ValueId value) {
  if (!tensor.requires_grad() || !tensor.is_leaf() || graph_.value(value).producer.valid()) {
    return;
  }
  auto captured = captured_.begin();
  for (const ir::Input& input : graph_.inputs()) {
    if (input.kind != ir::InputKind::kConstant) {
      continue;
    }
    if (input.value == value && c10::GradMode::is_enabled() && captured->requires_grad() &&
        !has_one_gradient(*captured, tensor)) {
      throw Error(ErrorCode::kUnsupported,
                  "the program uses two tensors on the same memory that both require grad, as a "
                  "parameter and a view of it that was made before: use one of them");
    }
    if (input.value == value && !captured->requires_grad()) {
      for (auto& [borrowed, own] : borrowed_) {
        own -= borrowed.is_same(*captured) ? 1 : 0;
      }
      *captured = tensor;
      if (options_.on_capture) {
        options_.on_capture(tensor);
      }
      return;
    }
    ++captured;
  }
}

ir::ValueId Recorder::capture(const at::Tensor& tensor) {
  if (tensor.is_meta()) {
    throw Error(ErrorCode::kInvalidArgument,
                "Unexpected fake: the program uses a meta tensor that is none of its inputs");
  }
  const std::size_t references = tensor.use_count();
  const ir::ValueId value =
      graph_.add_input("captured" + next_name(), describe(tensor), ir::InputKind::kConstant);
  values_.set(tensor, value);
  captured_.push_back(tensor);
  if (options_.on_capture) {
    options_.on_capture(tensor);
  }
  if (tensor.has_storage()) {
    external_.insert(tensor.storage().unsafeGetStorageImpl());
    const c10::DataPtr& memory = tensor.storage().data_ptr();
    if (memory.get() != nullptr && memory.get_context() == nullptr) {
      borrowed_.push_back({tensor, tensor.use_count() - references + 1});
    }
  }
  return value;
}

std::vector<std::size_t> Recorder::references_to_borrowed() const {
  std::vector<std::size_t> counts;
  for (const auto& [tensor, own] : borrowed_) {
    counts.push_back(tensor.use_count());
  }
  return counts;
}

void Recorder::require_lasting_memory(const std::vector<std::size_t>& held) const {
  for (std::size_t i = 0; i < borrowed_.size(); ++i) {
    const auto& [tensor, own] = borrowed_[i];
    if (tensor.use_count() == own + (i < held.size() ? held[i] : 0)) {
      throw Error(
          ErrorCode::kUnsupported,
          "the program makes a tensor of memory that it does not own (from_blob), which may "
          "be gone when a compiled one reads it: make it outside, pass it as an argument, "
          "or copy the values with torch::tensor");
    }
  }
}

// A number that C++ code wrote beside a tensor ("x * 2"): part of the program, not of its data.
ir::ValueId Recorder::literal(const at::Tensor& tensor) {
  const c10::Scalar scalar = tensor.item();
  const auto no_tensors = [](const at::Tensor&) { return ir::ValueId(); };
  ir::Node node = make_node();
  node.target = "aten.scalar_tensor.default";
  node.signature =
      "Scalar s,ScalarType? dtype,Layout? layout,Device? device,bool? pin_memory->Tensor";
  node.arguments = {to_argument(scalar, *c10::NumberType::get(), no_tensors),
                    static_cast<ir::DType>(tensor.scalar_type()),
                    ir::Layout::kStrided,
                    ir::Device{},
                    std::monostate()};
  const ir::NodeId id = graph_.add_node(std::move(node), {describe(tensor)});
  const ir::ValueId value = graph_.node(id).results[0];
  values_.set(tensor, value);
  of_numbers_.insert(memory_of(tensor));
  return value;
}

// Whether every tensor among `arguments` is computed from numbers of the program alone. Such have
// the same elements in every call that is traced to the same graph, so the program may read them:
// TorchScript computes with sizes in tensors.
bool Recorder::is_of_numbers(std::span<const c10::IValue> arguments) const {
  const std::vector<at::Tensor> tensors = tensors_among(arguments);
  return std::all_of(tensors.begin(), tensors.end(), [this](const at::Tensor& tensor) {
    return of_numbers_.contains(memory_of(tensor)) ||
           tensor.unsafeGetTensorImpl()->is_wrapped_number();
  });
}

// An operator has written and returned tensors, from such ones or from others.
void Recorder::note_numbers(bool of_numbers,
                            const Tensors& written,
                            std::span<const c10::IValue> results) {
  const auto note = [&](const at::Tensor& tensor) {
    if (of_numbers && memory_of(tensor) != nullptr) {
      of_numbers_.insert(memory_of(tensor));
    } else {
      of_numbers_.erase(memory_of(tensor));
    }
  };
  std::for_each(written.begin(), written.end(), note);
  for (const at::Tensor& result : tensors_among(results)) {
    note(result);
  }
}

// A view that was made without going through the dispatcher, by setting sizes and strides.
ir::ValueId Recorder::window(const at::Tensor& tensor, ir::ValueId on) {
  const auto expressions = [](at::IntArrayRef integers) {
    return std::vector<ir::Expr>(integers.begin(), integers.end());
  };
  ir::Node node = make_node();
  node.target = "aten.as_strided.default";
  node.signature = "Tensor,SymInt[],SymInt[],SymInt?->Tensor";
  node.arguments = {on,
                    expressions(tensor.sizes()),
                    expressions(tensor.strides()),
                    ir::Expr(tensor.storage_offset())};
  node.aliases = {{0, 0}};
  const ir::NodeId id = graph_.add_node(std::move(node), {describe(tensor)});
  const ir::ValueId value = graph_.node(id).results[0];
  values_.set(tensor, value);
  return value;
}

void Recorder::snapshot(const at::Tensor& tensor) {
  if (!options_.on_shadow_inputs || !tensor.has_storage()) {
    return;
  }
  const c10::StorageImpl* address = tensor.storage().unsafeGetStorageImpl();
  if (!external_.contains(address) || snapshots_.contains(address)) {
    return;
  }
  at::Tensor bytes = at::empty({0}, at::TensorOptions().dtype(at::kByte).device(tensor.device()));
  bytes.set_(tensor.storage(), 0, {static_cast<std::int64_t>(tensor.storage().nbytes())}, {1});
  snapshots_.emplace(address, Snapshot{bytes, bytes.clone()});
}

void Recorder::restore_captured() {
  const at::NoGradGuard no_grad;
  for (auto& [address, saved] : snapshots_) {
    saved.target.copy_(saved.copy);
  }
  snapshots_.clear();
}

}  // namespace kiln::capture
