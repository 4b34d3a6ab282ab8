// What people see while a command works.

#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "kiln/jit/options.hpp"

namespace kiln::tool {

/// Reports progress on standard error: one line that is overwritten on a terminal, plain lines
/// elsewhere.
[[nodiscard]] std::function<void(const Progress&)> progress_reporter();

/// Ends the line that `progress_reporter` may have left open.
void finish_progress();

/// `text`, red if standard error is a terminal and NO_COLOR is not set.
[[nodiscard]] std::string in_red(const std::string& text);

/// "f32[4, 128]"
[[nodiscard]] std::string describe(const at::Tensor& tensor);

}  // namespace kiln::tool
