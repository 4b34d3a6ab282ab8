// The results of operators as meta tensors, as far as they are known without computing them.

#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln::capture {

/// Whether `op`, named `target`, gives the same sizes, strides and types on the meta device as on
/// the CPU, so that they can be read off such a run.
bool has_faithful_meta_kernel(const c10::OperatorHandle& op, const std::string& target);

/// The results of `target` on `arguments` as meta tensors, by a meta rule of Kiln's; nothing if
/// there is no rule for them, as for operands that libtorch would refuse.
std::optional<std::vector<at::Tensor>> apply_meta_rule(const std::string& target,
                                                       std::span<const c10::IValue> arguments);

}  // namespace kiln::capture
