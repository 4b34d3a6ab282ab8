// Serialized arguments to `IValue`s, by what an operator's schema asks for.

#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "environment.hpp"
#include "serialized_types.hpp"

namespace kiln::exporter {

/// The value of `argument` (a union of schema.py's `Argument`), as it stands.
///
/// Throws `kUnsupported` for subgraphs, operators and custom objects, `kIncompatible` for a tag
/// that schema.py of PyTorch 2.13 does not have.
[[nodiscard]] c10::IValue read_argument(const Json& argument, const Environment& environment);

/// `value` as the schema's `formal` takes it: integers to doubles, numbers to tensors, one integer
/// to a list of them, lists of tensors to lists of optional tensors.
[[nodiscard]] c10::IValue coerce(c10::IValue value, const c10::Argument& formal);

}  // namespace kiln::exporter
