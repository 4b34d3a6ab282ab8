// The constants' bytes as a section of the library.

#pragma once

#include <filesystem>
#include <span>

#include "../program/emit.hpp"
#include "kiln/codegen/compile.hpp"

namespace kiln::codegen {

/// Lays the constants of `program` out one after another, each at a multiple of 64.
///
/// Throws `Error` with `kInvalidArgument` if their number or a size is not what the graph says.
void place_constants(const Program& program,
                     std::span<const ConstantData> data,
                     ModelDescription* description);

/// Writes them to `directory`, and an assembler source that includes them, whose path is returned.
[[nodiscard]] std::filesystem::path write_weights(const ModelDescription& description,
                                                  std::span<const ConstantData> data,
                                                  const std::filesystem::path& directory);

}  // namespace kiln::codegen
