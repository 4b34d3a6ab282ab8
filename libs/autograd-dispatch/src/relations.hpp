// How tensors are related: by memory, and by autograd.

#pragma once

#include <ATen/core/Tensor.h>

#include "kiln/autograd_dispatch/plan.hpp"

namespace kiln::autograd_dispatch {

/// Whether `a` and `b` are on the same storage.
[[nodiscard]] bool share_storage(const at::Tensor& a, const at::Tensor& b);

/// What autograd takes `tensor` for a view of: itself if it is none.
[[nodiscard]] at::Tensor base_of(const at::Tensor& tensor);

/// The window of `tensor` on its storage, the offset counted from `origin`.
[[nodiscard]] Geometry geometry_of(const at::Tensor& tensor, std::int64_t origin = 0);
/// The same, as what it is at one size.
[[nodiscard]] Window window_of(const at::Tensor& tensor, std::int64_t origin);

/// What autograd knows of `tensor` beyond the memory it shares.
enum class Link {
  kNone,            ///< It is not a view.
  kView,            ///< A differentiable view.
  kOneOfSeveral,    ///< Likewise, of an operator that returns several: it may not be written.
  kNoGrad,          ///< A view that was made with grad mode off.
  kCustomFunction,  ///< A view that a custom autograd function returned: its gradient is its own.
};
[[nodiscard]] Link link_of(const at::Tensor& tensor);

/// The number of writes that autograd counted; 0 for tensors that do not count them.
[[nodiscard]] std::int64_t version_of(const at::Tensor& tensor);

/// Makes autograd count a write that went past it.
void raise_version(const at::Tensor& tensor);

}  // namespace kiln::autograd_dispatch
