// The constants' bytes, behind the library in its file.

#pragma once

#include <span>

#include "kiln/codegen/compile.hpp"
#include "program/emit.hpp"

namespace kiln::codegen {

/// Lays the constants of `program` out one after another, each at a multiple of 64.
///
/// Throws `Error` with `kInvalidArgument` if their number or a size is not what the graph says.
void place_constants(const Program& program,
                     std::span<const ConstantData> data,
                     bool store_folded,
                     ModelDescription* description);

}  // namespace kiln::codegen
