#include "tensor_state.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include <string>
#include <unordered_set>

#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"
#include "relations.hpp"

namespace kiln::autograd_dispatch {
namespace {

torch::autograd::Edge history_of(const at::Tensor& tensor) {
  const at::Tensor base = base_of(tensor);
  return {base.grad_fn(), static_cast<std::uint32_t>(base.output_nr())};
}

std::string quoted(const at::Tensor& tensor) {
  return "a captured tensor of shape " + c10::str(tensor.sizes());
}

}  // namespace

TensorState::TensorState(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return;
  }
  requires_grad = tensor.requires_grad();
  leaf = tensor.is_leaf();
  history = history_of(tensor);
  geometry = geometry_of(tensor);
  version = version_of(tensor);
  if (tensor.has_storage()) {
    storage = tensor.storage();
    bytes = storage.nbytes();
  }
}

void CapturedStates::note(const at::Tensor& tensor) {
  const at::Tensor gradient = tensor.is_leaf() ? tensor.grad() : at::Tensor();
  entries_.push_back({tensor,
                      TensorState(tensor),
                      {tensor.grad_fn(), 0},
                      gradient,
                      gradient.defined() ? version_of(gradient) : 0});
}

void CapturedStates::restore() {
  const capture::PauseRecording unrecorded;
  const at::NoGradGuard no_grad;
  for (const Entry& entry : entries_) {
    const TensorState now(entry.tensor);
    if (entry.tensor.is_leaf() && !entry.tensor.grad().is_same(entry.gradient)) {
      entry.tensor.mutable_grad() = entry.gradient;
    }
    if (now.history.function != entry.before.history.function) {
      const at::Tensor base = base_of(entry.tensor);
      torch::autograd::impl::set_gradient_edge(base, entry.before.history);
      if (!entry.before.history.function) {
        base.set_requires_grad(entry.before.requires_grad);
      }
    } else if (now.requires_grad != entry.before.requires_grad && entry.tensor.is_leaf()) {
      entry.tensor.set_requires_grad(entry.before.requires_grad);
    }
    if (now.geometry != entry.before.geometry ||
        now.storage.unsafeGetStorageImpl() != entry.before.storage.unsafeGetStorageImpl()) {
      const Geometry& geometry = entry.before.geometry;
      entry.tensor.set_(entry.before.storage, geometry.offset, geometry.sizes, geometry.strides);
    }
  }
}

void CapturedStates::require_unchanged() {
  std::string what;
  for (const Entry& entry : entries_) {
    const TensorState now(entry.tensor);
    const at::Tensor& gradient = entry.tensor.is_leaf() ? entry.tensor.grad() : at::Tensor();
    if (!gradient.is_same(entry.gradient) ||
        (gradient.defined() && version_of(gradient) != entry.gradient_version)) {
      what = "writes the gradient of " + quoted(entry.tensor) +
             " (backward() inside a compiled function; use torch::autograd::grad)";
    } else if (now.history.function != entry.before.history.function ||
               now.requires_grad != entry.before.requires_grad) {
      what = "writes to " + quoted(entry.tensor) +
             " in a way that autograd sees; pass it as an argument";
    } else if (now.geometry != entry.before.geometry ||
               now.storage.unsafeGetStorageImpl() != entry.before.storage.unsafeGetStorageImpl() ||
               now.bytes != entry.before.bytes) {
      what =
          "changes the shape or the memory of " + quoted(entry.tensor) + "; pass it as an argument";
    }
  }
  if (!what.empty()) {
    restore();
    throw Error(ErrorCode::kUnsupported, "the function " + what);
  }
}

void CapturedStates::require_independent() const {
  using torch::autograd::Edge;
  using torch::autograd::Node;
  std::vector<Edge> kept;  // Nodes that must not go away while their addresses are compared.
  std::unordered_set<const Node*> ends, seen;
  std::vector<Node*> open;
  const auto follow = [&](const Node& node) {
    for (const Edge& edge : node.next_edges()) {
      if (edge.function && seen.insert(edge.function.get()).second) {
        open.push_back(edge.function.get());
      }
    }
  };
  for (const Entry& entry : entries_) {
    if (!entry.before.requires_grad) {
      continue;
    }
    kept.push_back(entry.before.leaf
                       ? Edge(torch::autograd::impl::grad_accumulator(entry.tensor), 0)
                       : entry.own_history);
    ends.insert(kept.back().function.get());
    follow(*kept.back().function);
  }
  while (!open.empty()) {
    const Node& node = *open.back();
    open.pop_back();
    if (ends.contains(&node)) {
      throw Error(ErrorCode::kUnsupported,
                  "one tensor that the function captures was computed from another one it "
                  "captures, both with gradients; pass the computed one as an argument");
    }
    follow(node);
  }
}

}  // namespace kiln::autograd_dispatch
