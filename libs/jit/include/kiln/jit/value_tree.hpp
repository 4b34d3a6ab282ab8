// Structured values taken apart into tensors and what they are nested in, and put together again.
//
// The structure is JSON in the form of PyTorch's `treespec_dumps`. Beside PyTorch's own leaves
// (`"type": null`), those that are not tensors may say what they are (`"constant"`).

#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kiln/export/exported_program.hpp"

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

/// Takes integers out of a structure that `flatten` made, in order, so that structures which differ
/// in them alone are equal. `may_take` says of a value, after so many others, whether to take it.
[[nodiscard]] std::vector<std::int64_t> take_integers(
    nlohmann::json& structure,
    const std::function<bool(std::int64_t value, std::size_t others)>& may_take);

/// Puts integers back where `take_integers` took them.
void put_integers(nlohmann::json& structure, std::span<const std::int64_t> integers);

/// `spec`, a program's call spec, in which leaves that are not tensors say what they are: constants
/// their values, and integers among the tensors that are passed (`integers`, by position) that they
/// are such. `flatten_arguments` checks and converts them.
[[nodiscard]] std::string spec_with_numbers(const std::string& spec,
                                            const std::vector<exporter::Leaf>& leaves,
                                            const std::set<std::uint32_t>& integers);

/// The tensors in the arguments of a call that `spec`, a call spec's inputs, describes. An integer
/// that the program takes is a tensor of it; what was fixed when it was exported has to be the
/// same.
///
/// Throws `Error` with `kInvalidArgument`, saying where, for arguments that do not fit.
[[nodiscard]] std::vector<at::Tensor> flatten_arguments(
    const nlohmann::json& spec,
    const std::vector<c10::IValue>& arguments,
    const std::map<std::string, c10::IValue>& named);

}  // namespace kiln
