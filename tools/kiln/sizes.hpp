// Inputs of another size than the samples in a package: `--size batch=7`.

#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "kiln/ir/expr.hpp"

namespace kiln::tool {

/// Where the metadata of a package has them.
inline constexpr const char* kSizesKey = "KILN_SIZES";

/// What `--size` says of itself.
inline constexpr const char* kSizeHelp =
    "NAME=N or INPUT[DIM]=N: a size that varies (kiln inspect lists them); the inputs are repeated "
    "or cut to it";

/// `inputs`, which the package's sizes describe, with the rows of each dimension that varies
/// repeated, or cut, until it has the size that `wanted` ("batch=7", "x[0]=7") gives it. What is
/// not named stays, and must be what the package takes.
///
/// Throws `Error` with `kInvalidArgument` naming what the package does not have, and what it has;
/// a size out of its range; and inputs whose other sizes the package does not take.
[[nodiscard]] std::vector<at::Tensor> resized(std::vector<at::Tensor> inputs,
                                              const std::filesystem::path& package,
                                              const std::vector<std::string>& wanted);

/// What the symbols of a package are in a call with `inputs`; nothing if its sizes are fixed.
///
/// Throws `Error` with `kInvalidArgument` for another number of inputs, or other ranks.
[[nodiscard]] ir::Bindings symbols_of(const std::filesystem::path& package,
                                      const std::vector<at::Tensor>& inputs);

/// Which inputs of a package are integers; empty if its metadata does not say.
[[nodiscard]] std::vector<bool> integer_inputs(const std::filesystem::path& package);

/// The sizes that vary in a package whose metadata has `declared`, for people: a line for each
/// input that has any ("x  [n, 256]"), then one for each symbol ("n, which is x[0]: 1 … 512").
[[nodiscard]] std::vector<std::string> describe_sizes(const std::string& declared);

}  // namespace kiln::tool
