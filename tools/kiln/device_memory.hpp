// The memory of a GPU, as its driver counts it.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace kiln::tool {

/// The GPU that the first of these tensors on one lies on.
[[nodiscard]] std::optional<c10::Device> gpu_of(const std::vector<at::Tensor>& tensors);

/// Gives back what libtorch's allocator keeps for later: what only the first calls needed.
void release_cached_memory(c10::Device gpu);

/// Bytes in use by all processes; nothing where this libtorch cannot tell.
[[nodiscard]] std::optional<std::uint64_t> memory_in_use(c10::Device gpu);

}  // namespace kiln::tool
