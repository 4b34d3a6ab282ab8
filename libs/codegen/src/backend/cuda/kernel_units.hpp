// CUDA kernels as translation units of the host: launchers, and the kernels' images in the object.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"

namespace kiln::codegen::cuda {

/// Names the kernels and groups the distinct ones. A unit's kernels are compiled for each of
/// `architectures`, and as PTX for the newest of them. `nvrtc` tells the NVRTC that compiles them
/// from another.
[[nodiscard]] KernelUnits group_kernels(std::span<const KernelSource> kernels,
                                        std::span<const std::string> architectures,
                                        const std::string& nvrtc);

}  // namespace kiln::codegen::cuda
