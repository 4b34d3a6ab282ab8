// Comparisons, logic and selections: one element from one element of each operand.

#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::DType;

namespace {

Lower logical_of(ScalarOp op) {
  return [op](Lowering& l) {
    l.define(0, [&](Indices i) {
      return binary(op, l.operand(0, i, DType::kBool), l.operand(1, i, DType::kBool));
    });
    return true;
  };
}

Lower bitwise_of(ScalarOp op) {
  return [op](Lowering& l) {
    const DType type = l.meta(0).dtype;
    l.define(0,
             [&](Indices i) { return binary(op, l.operand(0, i, type), l.operand(1, i, type)); });
    return true;
  };
}

bool lower_logical_not(Lowering& l) {
  l.define(0, [&](Indices i) { return unary(ScalarOp::kNot, l.operand(0, i, DType::kBool)); });
  return true;
}

bool lower_bitwise_not(Lowering& l) {
  const DType type = l.meta(0).dtype;
  l.define(0, [&](Indices i) { return unary(ScalarOp::kNot, l.operand(0, i, type)); });
  return true;
}

Lower comparison_of(ScalarOp op, bool swapped) {
  return [op, swapped](Lowering& l) {
    const DType type = l.promote(0, 1);
    l.define(0, [&](Indices i) {
      const Formula a = l.operand(0, i, type);
      const Formula b = l.operand(1, i, type);
      return swapped ? compare(op, b, a) : compare(op, a, b);
    });
    return true;
  };
}

bool lower_is_nan(Lowering& l) {
  if (!ir::is_floating_point(l.dtype(l.tensor(0)))) {
    return false;
  }
  l.define(0, [&](Indices i) { return unary(ScalarOp::kIsNan, l.broadcast(l.tensor(0), i)); });
  return true;
}

bool lower_where(Lowering& l) {
  const DType type = l.meta(0).dtype;
  l.define(0, [&](Indices i) {
    return where(l.operand(0, i, DType::kBool), l.operand(1, i, type), l.operand(2, i, type));
  });
  return true;
}

bool lower_masked_fill(Lowering& l) {
  const DType type = l.meta(0).dtype;
  l.define(0, [&](Indices i) {
    return where(l.operand(1, i, DType::kBool), l.operand(2, i, type), l.operand(0, i, type));
  });
  return true;
}

}  // namespace

void add_logic_lowerings(Lowerings& table) {
  table["aten.logical_and.default"] = logical_of(ScalarOp::kAnd);
  table["aten.logical_or.default"] = logical_of(ScalarOp::kOr);
  table["aten.logical_xor.default"] = logical_of(ScalarOp::kXor);
  for (const auto* suffix : {"Tensor", "Scalar"}) {
    const bool tensor = suffix[0] == 'T';
    table[tensor ? "aten.bitwise_and.Tensor" : "aten.bitwise_and.Scalar"] =
        bitwise_of(ScalarOp::kAnd);
    table[tensor ? "aten.bitwise_or.Tensor" : "aten.bitwise_or.Scalar"] = bitwise_of(ScalarOp::kOr);
    table[tensor ? "aten.bitwise_xor.Tensor" : "aten.bitwise_xor.Scalar"] =
        bitwise_of(ScalarOp::kXor);
    table[tensor ? "aten.eq.Tensor" : "aten.eq.Scalar"] = comparison_of(ScalarOp::kEqual, false);
    table[tensor ? "aten.ne.Tensor" : "aten.ne.Scalar"] = comparison_of(ScalarOp::kNotEqual, false);
    table[tensor ? "aten.lt.Tensor" : "aten.lt.Scalar"] = comparison_of(ScalarOp::kLess, false);
    table[tensor ? "aten.le.Tensor" : "aten.le.Scalar"] =
        comparison_of(ScalarOp::kLessEqual, false);
    table[tensor ? "aten.gt.Tensor" : "aten.gt.Scalar"] = comparison_of(ScalarOp::kLess, true);
    table[tensor ? "aten.ge.Tensor" : "aten.ge.Scalar"] = comparison_of(ScalarOp::kLessEqual, true);
  }
  table["aten.logical_not.default"] = lower_logical_not;
  table["aten.bitwise_not.default"] = lower_bitwise_not;
  table["aten.isnan.default"] = lower_is_nan;
  table["aten.where.self"] = lower_where;
  table["aten.masked_fill.Scalar"] = lower_masked_fill;
  table["aten.masked_fill.Tensor"] = lower_masked_fill;
}

}  // namespace kiln::codegen
