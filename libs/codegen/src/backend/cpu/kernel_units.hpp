// Kernels as translation units: equal ones once, and as many units as keep all cores at work.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "kiln/codegen/target.hpp"
#include "toolchain/build.hpp"

namespace kiln::codegen {

/// Names each kernel by the digest of its text and groups the distinct ones. `mark` tells the
/// functions and units from those for other instruction sets. Kernels after the first `hot_count`
/// fold constants: they run once, so they are compiled with less optimization.
[[nodiscard]] KernelUnits group_kernels(std::span<const KernelSource> kernels,
                                        const Target& target,
                                        const std::string& mark = {},
                                        std::size_t hot_count = SIZE_MAX);

/// The units of all shape-generic kernels, as `group_kernels` makes them.
[[nodiscard]] std::vector<Unit> shape_generic_units(const Target& target);

}  // namespace kiln::codegen
