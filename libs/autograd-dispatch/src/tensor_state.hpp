// What a traced function did to the tensors it was given, read from the tensors themselves.

#pragma once

#include <c10/core/Storage.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <optional>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/autograd_dispatch/plan.hpp"

namespace kiln::autograd_dispatch {

/// A tensor as it was at some time.
struct TensorState {
  explicit TensorState(const at::Tensor& tensor);

  bool requires_grad = false;
  bool leaf = true;
  torch::autograd::Edge history;  ///< Of the tensor it is a view of, if it is a view.
  c10::Storage storage;
  std::size_t bytes = 0;  ///< Of the storage.
  Geometry geometry;
  std::int64_t version = 0;
};

/// The tensors that a function captures, as they were before it used them. It runs on them
/// themselves, so whatever it does beyond writing their elements has to be undone.
class CapturedStates {
 public:
  /// To be called when `tensor` is captured.
  void note(const at::Tensor& tensor);

  /// Puts everything back, and throws `Error` with `kUnsupported` saying what the function did that
  /// no compiled function can.
  void require_unchanged();
  /// Only puts everything back.
  void restore();

  /// Throws `Error` with `kUnsupported` if one captured tensor was computed from another: the
  /// gradient of the latter would be counted twice.
  void require_independent() const;

 private:
  struct Entry {
    at::Tensor tensor;
    TensorState before;
    torch::autograd::Edge own_history;
    at::Tensor gradient;
    std::int64_t gradient_version;
  };
  std::vector<Entry> entries_;
};

}  // namespace kiln::autograd_dispatch
