// Kinds of GPUs by NVRTC's names: "sm_90" is machine code for compute capability 9.0, "compute_90"
// PTX for it and what comes later.

#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace kiln::codegen::cuda {

/// 90 for sm_90 and compute_90.
[[nodiscard]] std::uint32_t capability_of(const std::string& architecture);

[[nodiscard]] bool is_ptx(const std::string& architecture);

/// "compute_90" if sm_90 is the newest of `architectures`.
[[nodiscard]] std::string ptx_architecture(std::span<const std::string> architectures);

}  // namespace kiln::codegen::cuda
