// Where the inputs of a run come from.

#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

namespace kiln::tool {

/// Reads `.npy` (one array each) and `.pt` files (a tensor or a list of tensors each).
[[nodiscard]] std::vector<at::Tensor> read_inputs(const std::vector<std::string>& files);

/// The sample inputs inside a package of ours; empty if it has none.
[[nodiscard]] std::vector<at::Tensor> sample_inputs(const std::filesystem::path& package);

/// `files` if there are any, else the package's samples, with the `sizes` that are asked for
/// (sizes.hpp). Throws `kInvalidArgument` if there are neither and the package takes inputs.
[[nodiscard]] std::vector<at::Tensor> inputs_for(const std::filesystem::path& package,
                                                 const std::vector<std::string>& files,
                                                 const std::vector<std::string>& sizes = {});

}  // namespace kiln::tool
