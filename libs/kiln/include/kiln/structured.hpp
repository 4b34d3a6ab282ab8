// Calls of models with structured arguments: tuples, lists, dictionaries, None and numbers as
// `c10::IValue`.
//
// Callers must also include <ATen/core/ivalue.h>, or all of torch.

#pragma once

#include <map>
#include <string>

#include "kiln/jit/structured_function.hpp"
#include "kiln/model.hpp"

namespace kiln {

/// Arguments that are passed by name.
using NamedValues = std::map<std::string, c10::IValue>;

/// Calls a model with the arguments of the program that it was compiled from: they are flattened
/// according to its call spec, named ones in any order, and the result is restored. Integers that
/// an archive lets vary are passed to the model. Other arguments that are not tensors were fixed in
/// the export, and are compared with their values there.
///
/// Throws `Error` with `kInvalidArgument`, with the position, if the arguments are not nested as
/// the spec says, or a fixed one has another value.
[[nodiscard]] c10::IValue call(Model& model, const Values& arguments, const NamedValues& named);
/// The same without named arguments.
[[nodiscard]] c10::IValue call(Model& model, const Values& arguments);

}  // namespace kiln
