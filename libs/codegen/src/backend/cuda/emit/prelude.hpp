// The headers that CUDA kernels stand on (kernels/*.hpp), as text.

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kiln::codegen::cuda {

/// The files of kernels/, embedded when Kiln is built, each after those it includes.
[[nodiscard]] std::span<const std::string_view> kernel_headers();

/// The text that every kernel needs before its own: the headers without what only editors and tests
/// need, includes and namespaces. It includes nothing.
[[nodiscard]] const std::string& prelude();

}  // namespace kiln::codegen::cuda
