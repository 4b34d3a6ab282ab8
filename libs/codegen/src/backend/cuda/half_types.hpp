// The types that tensor cores multiply fastest.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::codegen::cuda {

/// Whether elements have 16 bits.
[[nodiscard]] inline bool is_half(ir::DType dtype) {
  return dtype == ir::DType::kFloat16 || dtype == ir::DType::kBFloat16;
}

}  // namespace kiln::codegen::cuda
