// Which operators have effects.

#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

namespace kiln::capture {

/// Whether `op` throws or does nothing, depending on the values that it is given.
bool is_assertion(const std::string& target);

/// Whether calls of `op` must happen even if nobody uses their results.
bool has_effect(const c10::OperatorHandle& op, const std::string& target);

}  // namespace kiln::capture
