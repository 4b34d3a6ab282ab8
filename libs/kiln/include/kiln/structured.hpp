// Calls of models with structured arguments: tuples, lists, dictionaries, None and numbers as
// `c10::IValue`.
//
// Whoever calls these includes <ATen/core/ivalue.h>, or all of torch, too.

#pragma once

#include <map>
#include <string>

#include "kiln/jit/structured_function.hpp"
#include "kiln/model.hpp"

namespace kiln {

/// Arguments that are passed by name.
using NamedValues = std::map<std::string, c10::IValue>;

/// Calls a model as the program that it was compiled from was called: arguments are taken apart by
/// its call spec, named ones in the spec's order whatever theirs is, and the result is put together
/// again. Integers that an archive lets vary are passed on; other arguments that are not tensors
/// were fixed when it was exported, and are compared with what they were then.
///
/// Throws `Error` with `kInvalidArgument`, saying where, if the arguments are nested in another way
/// than the spec says, or have other values where they were fixed.
[[nodiscard]] c10::IValue call(Model& model, const Values& arguments, const NamedValues& named);
/// The same without named arguments.
[[nodiscard]] c10::IValue call(Model& model, const Values& arguments);

}  // namespace kiln
