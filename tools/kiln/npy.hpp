// Arrays of NumPy.

#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>

namespace kiln::tool {

/// Reads a `.npy` file.
///
/// Throws `Error`: `kIo` if it cannot be read, `kCorrupt` if it is damaged or something else,
/// `kUnsupported` for an element type or an order that tensors here do not have.
[[nodiscard]] at::Tensor read_npy(const std::filesystem::path& path);

}  // namespace kiln::tool
