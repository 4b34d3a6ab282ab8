// Scalar expressions written as formulas: `x * 0.5 * (erf(x * kSqrtHalf) + 1)`.

#pragma once

#include "loop/scalar.hpp"

namespace kiln::codegen {

/// An expression being written down. A number beside it takes its type.
struct Formula {
  ScalarPool* pool = nullptr;
  ScalarId id = {};

  [[nodiscard]] ir::DType dtype() const { return (*pool)[id].dtype; }
  [[nodiscard]] Formula number(double value) const {
    return {pool, pool->constant(value, dtype())};
  }
  [[nodiscard]] Formula to(ir::DType type) const { return {pool, pool->cast(id, type)}; }
  /// The integer that this is, as a place.
  [[nodiscard]] Index index() const { return Index::computed(id); }
};

inline Formula unary(ScalarOp op, Formula a) {
  return {a.pool, a.pool->unary(op, a.id)};
}
inline Formula binary(ScalarOp op, Formula a, Formula b) {
  return {a.pool, a.pool->binary(op, a.id, b.id)};
}
inline Formula compare(ScalarOp op, Formula a, Formula b) {
  return {a.pool, a.pool->compare(op, a.id, b.id)};
}
inline Formula where(Formula condition, Formula yes, Formula no) {
  return {yes.pool, yes.pool->where(condition.id, yes.id, no.id)};
}

/// `a` as elements of type `type` hold it, which has fewer digits than what it is computed in.
inline Formula rounded(Formula a, ir::DType type) {
  if (type == ir::DType::kFloat16) {
    return unary(ScalarOp::kRoundToHalf, a.to(type));
  }
  return type == ir::DType::kBFloat16 ? unary(ScalarOp::kRoundToBFloat16, a.to(type)) : a.to(type);
}

inline Formula operator+(Formula a, Formula b) {
  return binary(ScalarOp::kAdd, a, b);
}
inline Formula operator-(Formula a, Formula b) {
  return binary(ScalarOp::kSubtract, a, b);
}
inline Formula operator*(Formula a, Formula b) {
  return binary(ScalarOp::kMultiply, a, b);
}
inline Formula operator/(Formula a, Formula b) {
  return binary(ScalarOp::kDivide, a, b);
}
inline Formula operator+(Formula a, double b) {
  return a + a.number(b);
}
inline Formula operator-(Formula a, double b) {
  return a - a.number(b);
}
inline Formula operator*(Formula a, double b) {
  return a * a.number(b);
}
inline Formula operator/(Formula a, double b) {
  return a / a.number(b);
}
inline Formula operator-(double a, Formula b) {
  return b.number(a) - b;
}
inline Formula operator<(Formula a, Formula b) {
  return compare(ScalarOp::kLess, a, b);
}
inline Formula operator<=(Formula a, Formula b) {
  return compare(ScalarOp::kLessEqual, a, b);
}

}  // namespace kiln::codegen
