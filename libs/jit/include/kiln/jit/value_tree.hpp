// Flattens structured values into tensors and a structure, and restores them.
//
// The structure is JSON in the form of PyTorch's `treespec_dumps`. In addition to PyTorch's own
// leaves (`"type": null`), leaves that are not tensors may have their value (`"constant"`).

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

/// A flattened value.
struct FlatValue {
  std::vector<at::Tensor> tensors;  ///< Its tensors, in order.
  nlohmann::json structure;         ///< How they are nested, and everything else.
};

/// Flattens `value`. The structure contains the values of leaves that are not tensors.
///
/// Throws `Error` with `kUnsupported` for anything that is not a tensor, a finite number, a string,
/// None, or a tuple, list or dictionary (with strings as keys) of such.
[[nodiscard]] FlatValue flatten(const c10::IValue& value);

/// Restores a value. Throws `Error` with `kInvalidArgument` if the structure has another number of
/// tensors.
[[nodiscard]] c10::IValue unflatten(const nlohmann::json& structure,
                                    const std::vector<at::Tensor>& tensors);

/// Removes integers from a structure that `flatten` made, and returns them in order, so that
/// structures that differ only in them are equal. `may_take` decides about a value, given how many
/// were taken before it.
[[nodiscard]] std::vector<std::int64_t> take_integers(
    nlohmann::json& structure,
    const std::function<bool(std::int64_t value, std::size_t others)>& may_take);

/// Reinserts the integers that `take_integers` removed.
void put_integers(nlohmann::json& structure, std::span<const std::int64_t> integers);

/// `spec`, a program's call spec, with descriptions of the leaves that are not tensors: the values
/// of constants, and marks for the inputs that are integers (`integers`, by position).
/// `flatten_arguments` uses them to check and convert arguments.
[[nodiscard]] std::string spec_with_numbers(const std::string& spec,
                                            const std::vector<exporter::Leaf>& leaves,
                                            const std::set<std::uint32_t>& integers);

/// The tensors in the arguments of a call, according to `spec`, the inputs of a call spec. Integer
/// inputs of the program are converted to tensors; arguments that were fixed in the export must
/// have the same values.
///
/// Throws `Error` with `kInvalidArgument`, with the position, for arguments that do not match.
[[nodiscard]] std::vector<at::Tensor> flatten_arguments(
    const nlohmann::json& spec,
    const std::vector<c10::IValue>& arguments,
    const std::map<std::string, c10::IValue>& named);

}  // namespace kiln
