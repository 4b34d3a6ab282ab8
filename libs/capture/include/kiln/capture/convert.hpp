// Between libtorch's vocabulary and the ir's.

#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/operator_name.h>

#include <string>

#include "kiln/ir/graph.hpp"

namespace kiln::capture {

/// Dtype, device, geometry, requires_grad and conj/neg bits of `tensor`; no storage id.
[[nodiscard]] ir::TensorMeta meta_of(const at::Tensor& tensor);

/// "aten.add.Tensor" for "aten::add" and "Tensor"; an empty overload is "default".
[[nodiscard]] std::string target_of(const c10::OperatorName& name);
/// The inverse. Throws `Error` with `kInvalidArgument` if `target` has no such form.
[[nodiscard]] c10::OperatorName operator_name_of(const std::string& target);

/// Gives nodes that a pass made, and that have no signature, the one of their operator's schema.
/// Leaves those alone whose operator is not registered.
void complete_signatures(ir::Graph& graph);

}  // namespace kiln::capture
