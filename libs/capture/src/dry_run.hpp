// Running an operator on other tensors in the place of its own, to see what it would return.

#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln::capture {

/// What a call returns, tensor by tensor.
struct DryRunResult {
  struct Result {
    at::Tensor geometry;  ///< Without elements; undefined where it returns none.
    /// The operand that it is, counted as `tensors_among` has them: what was written in place.
    std::optional<std::size_t> operand = {};
  };
  struct Return {
    std::vector<Result> results;
    bool is_list = false;
  };
  std::vector<Return> returns;
  /// A result lies where an operand does, which only a call on the operand itself can give.
  bool is_view = false;
};

/// The defined tensors among `arguments`, each once, in order.
std::vector<at::Tensor> tensors_among(std::span<const c10::IValue> arguments);

/// Calls `op` with `keys` on `arguments`, with `stand_in(tensor)` for each of its tensors, and says
/// what became of it. Nothing if it returned something other than tensors, or changed the geometry
/// of an operand.
std::optional<DryRunResult> dry_run(const c10::OperatorHandle& op,
                                    c10::DispatchKeySet keys,
                                    std::span<const c10::IValue> arguments,
                                    const std::function<at::Tensor(const at::Tensor&)>& stand_in,
                                    bool on_meta);

/// A tensor of the geometry of `tensor` that has no memory (device meta).
at::Tensor without_memory(const at::Tensor& tensor);

/// A tensor of the geometry of `tensor`, on the CPU, that is zero.
at::Tensor zero_like(const at::Tensor& tensor);

/// Whether `tensor` is nothing but numbers in the memory of the CPU.
bool is_plain(const at::Tensor& tensor);

/// All that the geometry of the results of a call can depend on, as text.
std::string geometry_key(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments);

}  // namespace kiln::capture
