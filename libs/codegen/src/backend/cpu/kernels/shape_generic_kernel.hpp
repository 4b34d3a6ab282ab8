// A kernel whose text knows no sizes, and so is the same in every model.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::codegen {

/// What a node with such a text takes besides its operands.
struct ShapeGenericKernel {
  std::string source;               ///< As `Kernel::source` wants it.
  std::vector<std::int64_t> sizes;  ///< What it is told.
  std::int64_t scratch = 0;         ///< Elements of float32 that it wants behind the operands.
};

}  // namespace kiln::codegen
