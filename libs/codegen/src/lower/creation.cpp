// Tensors from nothing but their shape.

#include "lowering.hpp"

namespace kiln::codegen {

using ir::DType;

namespace {

Lower filled_with(double value) {
  return [value](Lowering& l) {
    l.define(0, [&](Indices) { return l.constant(value, l.meta(0).dtype); });
    return true;
  };
}

// The fill value is argument `argument`.
Lower filled_by(std::size_t argument) {
  return [argument](Lowering& l) {
    if (l.is_tensor(argument)) {
      l.define(0, [&](Indices i) { return l.operand(argument, i, l.meta(0).dtype); });
    } else {
      l.define(0, [&](Indices) { return l.number(argument, l.meta(0).dtype); });
    }
    return true;
  };
}

// start + index * step, of an integer type: a float's rounding is ATen's own business.
Lower range_of(int start, int step) {
  return [start, step](Lowering& l) {
    const DType type = l.meta(0).dtype;
    if (!ir::is_integral(type)) {
      return false;
    }
    const ir::Expr first = start < 0 ? 0 : l.integer(static_cast<std::size_t>(start));
    const ir::Expr increment = step < 0 ? 1 : l.integer(static_cast<std::size_t>(step), 1);
    l.define(
        0, [&](Indices i) { return Formula{&l.pool(), l.pool().index(i[0] * increment + first)}; });
    return true;
  };
}

}  // namespace

void add_creation_lowerings(Lowerings& table) {
  table["aten.full.default"] = filled_by(1);
  table["aten.full_like.default"] = filled_by(1);
  table["aten.new_full.default"] = filled_by(2);
  table["aten.fill.Scalar"] = filled_by(1);
  table["aten.fill.Tensor"] = filled_by(1);
  table["aten.scalar_tensor.default"] = filled_by(0);
  for (const auto* name : {"aten.zeros.default",
                           "aten.zeros_like.default",
                           "aten.new_zeros.default",
                           "aten.zero.default"}) {
    table[name] = filled_with(0);
  }
  for (const auto* name :
       {"aten.ones.default", "aten.ones_like.default", "aten.new_ones.default"}) {
    table[name] = filled_with(1);
  }
  table["aten.arange.default"] = range_of(-1, -1);
  table["aten.arange.start"] = range_of(0, -1);
  table["aten.arange.start_step"] = range_of(0, 2);
}

}  // namespace kiln::codegen
