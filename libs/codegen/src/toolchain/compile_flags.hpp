// How generated sources are compiled, whatever they are for.

#pragma once

#include <string>
#include <vector>

namespace kiln::codegen {

/// What all of them have in common.
[[nodiscard]] const std::vector<std::string>& common_compile_flags();

/// For the program around the kernels, which runs once per call and not once per element.
[[nodiscard]] std::vector<std::string> program_compile_flags();

}  // namespace kiln::codegen
