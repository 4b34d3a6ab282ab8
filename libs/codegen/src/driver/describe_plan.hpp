// The plan of a program as JSON, for tools: `kiln bisect` runs it kernel by kernel, `kiln inspect`
// draws it.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "program/program.hpp"
#include "toolchain/build.hpp"

namespace kiln::codegen {

/// Buffers with their place and lifetime, values with their location, kernels, and steps in order.
/// docs/codegen.md lists the fields. Sizes that are not fixed are strings. `units` have the
/// kernels that are named, those of the first target.
[[nodiscard]] std::string describe_plan(const Program& program,
                                        const std::vector<std::string>& kernel_names,
                                        std::span<const Unit> units,
                                        const std::vector<std::string>& compiler);

}  // namespace kiln::codegen
