// The operators on plain numbers in a serialized graph: `_operator.add`, `torch.sym_max`, sizes.
//
// Sizes are concrete while a program is traced, so these are computed and leave nothing in the
// graph.

#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln::exporter {

/// The value of `target` on `arguments`, or nothing if it is not an operator on numbers or sizes.
///
/// Throws `kUnsupported` if the operands do not fit, and `kInvalidArgument` if an assertion of the
/// program fails.
[[nodiscard]] std::optional<c10::IValue> evaluate_symbolic(
    const std::string& target, const std::vector<c10::IValue>& arguments);

}  // namespace kiln::exporter
