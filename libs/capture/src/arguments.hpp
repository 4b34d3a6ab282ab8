// Between the dispatcher's boxed values and the ir's arguments, by the schema's types.

#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <functional>

#include "kiln/ir/graph.hpp"

namespace kiln::capture {

/// `value`, of schema type `type`, as an argument; `value_of` names the tensors in it.
ir::Argument to_argument(const c10::IValue& value,
                         const c10::Type& type,
                         const std::function<ir::ValueId(const at::Tensor&)>& value_of);

/// The inverse for arguments that hold no tensors; throws `kUnsupported` for those that do and for
/// symbols.
c10::IValue to_ivalue(const ir::Argument& argument, const c10::Type& type);

}  // namespace kiln::capture
