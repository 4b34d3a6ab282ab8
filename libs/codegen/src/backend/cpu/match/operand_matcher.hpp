// Operands of a node as strided views, for kernels that take offsets and strides as arguments.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "backend/cpu/match/match.hpp"
#include "loop/loop_program.hpp"
#include "loop/strided_view.hpp"

namespace kiln::codegen {

/// Collects operands one after the other, and notes whether all requirements on them hold.
class OperandMatcher {
 public:
  OperandMatcher(const ir::Graph& graph, const LoopProgram& program)
      : graph_(graph), program_(program) {}

  /// `expr`, which must be a number.
  std::int64_t number(const ir::Expr& expr) {
    require(expr.constant().has_value());
    return expr.constant().value_or(0);
  }

  /// `expr`, which must be positive, whatever varies.
  const ir::Expr& size(const ir::Expr& expr) {
    require(expr.bounds(graph_.symbols()).low > 0);
    return expr;
  }

  /// The next operand, which must be of float32; valid until another is placed.
  const StridedView& place(ir::ValueId value) {
    require(graph_.tensor(value).dtype == ir::DType::kFloat32);
    return operands_.emplace_back(strided_view_of(program_, value));
  }

  /// The same as it is seen through views if that `suits`, else as a copy of its own.
  template <class Suits>
  const StridedView& place_or_copy(ir::ValueId value, const Suits& suits) {
    if (!suits(place(value))) {
      operands_.back() = own_memory_of(program_, value);
    }
    return operands_.back();
  }

  /// The most that `expr` may be.
  [[nodiscard]] std::int64_t largest(const ir::Expr& expr) const {
    return expr.bounds(graph_.symbols()).high;
  }

  void require(bool condition) { fits_ = fits_ && condition; }

  /// Whether everything was as it must be.
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
