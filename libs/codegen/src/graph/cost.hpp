// What a step of a program has to move and compute.

#pragma once

#include "kiln/ir/expr.hpp"

namespace kiln::codegen {

/// What a step has to move and compute, whatever its machine code then does.
struct Cost {
  ir::Expr bytes_read = 0;     ///< Each operand once.
  ir::Expr bytes_written = 0;  ///< Each result once.
  ir::Expr operations = 0;     ///< Of floating-point numbers; a multiply-add is two.
};

}  // namespace kiln::codegen
