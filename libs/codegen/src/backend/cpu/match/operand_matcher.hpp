// Operands of a node as strided views, for kernels that take offsets and strides as arguments.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "backend/cpu/match/match.hpp"
#include "loop/loop_program.hpp"
#include "loop/strided_view.hpp"

namespace kiln::codegen {

/// Collects the operands of a kernel in order, and records whether all requirements on them hold.
class OperandMatcher {
 public:
  OperandMatcher(const ir::Graph& graph, const LoopProgram& program)
      : graph_(graph), program_(program) {}

  /// The value of `expr`, which must be constant.
  std::int64_t number(const ir::Expr& expr) {
    require(expr.constant().has_value());
    return expr.constant().value_or(0);
  }

  /// `expr`, which must be positive for all values of its symbols.
  const ir::Expr& size(const ir::Expr& expr) {
    require(expr.bounds(graph_.symbols()).low > 0);
    return expr;
  }

  /// Appends an operand, which must be float32. The reference is valid until the next one is added.
  const StridedView& add_operand(ir::ValueId value) {
    require(graph_.tensor(value).dtype == ir::DType::kFloat32);
    return operands_.emplace_back(strided_view_of(program_, value));
  }

  /// The same, with the strides of its view if they suit the kernel (`suits`), else as a copy.
  template <class Suits>
  const StridedView& add_operand_or_copy(ir::ValueId value, const Suits& suits) {
    if (!suits(add_operand(value))) {
      operands_.back() = own_memory_of(program_, value);
    }
    return operands_.back();
  }

  /// The upper bound of `expr`.
  [[nodiscard]] std::int64_t largest(const ir::Expr& expr) const {
    return expr.bounds(graph_.symbols()).high;
  }

  void require(bool condition) { fits_ = fits_ && condition; }

  /// Whether all requirements held so far.
  [[nodiscard]] bool fits() const { return fits_; }

  [[nodiscard]] std::vector<StridedView> take_operands() { return std::move(operands_); }

  [[nodiscard]] const ir::TensorMeta& tensor(ir::ValueId value) const {
    return graph_.tensor(value);
  }

 private:
  const ir::Graph& graph_;
  const LoopProgram& program_;
  std::vector<StridedView> operands_;
  bool fits_ = true;
};

}  // namespace kiln::codegen
