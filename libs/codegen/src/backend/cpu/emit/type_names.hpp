// What kernels call the types of elements, vectors and memory.

#pragma once

#include <string_view>

#include "kiln/ir/types.hpp"

namespace kiln::codegen {

/// "float", "long long", …: a scalar of `dtype`, which is a compute type.
[[nodiscard]] std::string_view scalar_type(ir::DType dtype);
/// "F32", "I64", …: as many of them as a vector has lanes. Bools are masks.
[[nodiscard]] std::string_view vector_type(ir::DType dtype);
/// What elements are in memory: "Bf16", "Bool", "float", ….
[[nodiscard]] std::string_view memory_type(ir::DType dtype);

}  // namespace kiln::codegen
