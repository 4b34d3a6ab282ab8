// One call of a registered operator with serialized arguments.

#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "environment.hpp"
#include "serialized_types.hpp"

namespace kiln::exporter {

/// Calls `target` ("torch.ops.aten.linear.default") on `inputs` (schema.py's `NamedArgument`s);
/// returns its results.
///
/// Arguments that are left out get the schema's defaults. A number given for a tensor selects the
/// overload that takes a number there, if there is one, so that it stays a literal. Throws
/// `kUnsupported` if there is no such operator.
[[nodiscard]] std::vector<c10::IValue> call_operator(const std::string& target,
                                                     const Json& inputs,
                                                     const Environment& environment);

}  // namespace kiln::exporter
