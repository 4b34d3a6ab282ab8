// What operators return, as far as it is known without computing it.

#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln::capture {

/// Whether `op` called `target` runs on tensors without memory (device meta) as it does on the CPU,
/// so that sizes, strides and types of its results can be read off such a run.
bool is_same_on_meta(const c10::OperatorHandle& op, const std::string& target);

/// The results of `target` on `arguments` as tensors without memory, by a rule of our own; nothing
/// where there is none, as for operands that libtorch would refuse.
std::optional<std::vector<at::Tensor>> foretell(const std::string& target,
                                                std::span<const c10::IValue> arguments);

}  // namespace kiln::capture
