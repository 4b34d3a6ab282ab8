// Structured values taken apart into tensors and what they are nested in, and put together again.
//
// The structure is JSON in the form of PyTorch's `treespec_dumps`. Beside PyTorch's own leaves
// (`"type": null`), those that are not tensors may say what they are (`"constant"`).

#pragma once

#include <ATen/core/ivalue.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kiln {

/// A value, taken apart.
struct FlatValue {
  std::vector<at::Tensor> tensors;  ///< Its tensors, in order.
  nlohmann::json structure;         ///< How they are nested, and all else.
};

/// Takes `value` apart. Leaves that are not tensors are in the structure, by their values.
///
/// Throws `Error` with `kUnsupported` for what is neither a tensor, a finite number, a string, None
/// nor a tuple, list or dictionary (by strings) of such.
[[nodiscard]] FlatValue flatten(const c10::IValue& value);

/// Puts a value together. Throws `Error` with `kInvalidArgument` if the number of tensors is not
/// that of the structure.
[[nodiscard]] c10::IValue unflatten(const nlohmann::json& structure,
                                    const std::vector<at::Tensor>& tensors);

/// The tensors in the arguments of a call that `spec`, a call spec's inputs, describes.
[[nodiscard]] std::vector<at::Tensor> flatten_arguments(
    const nlohmann::json& spec,
    const std::vector<c10::IValue>& arguments,
    const std::map<std::string, c10::IValue>& named);

}  // namespace kiln
