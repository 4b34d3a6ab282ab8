// Tensors from nothing but their shape.

#include "lower/lowering.hpp"

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
      l.define(0, [&](Indices) { return l.element(argument, l.meta(0).dtype); });
    }
    return true;
  };
}

// What ATen counts in: doubles for floats, floats for what is narrower.
DType counting_type(DType type) {
  return type == DType::kFloat32 || type == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

Formula counted(const Lowering& l, const Index& index, DType type) {
  return Formula{&l.pool(), l.pool().index(index)}.to(type);
}

// start + index * step
Lower range_of(int start, int step) {
  return [start, step](Lowering& l) {
    const DType type = l.meta(0).dtype;
    if (ir::is_integral(type)) {
      const ir::Expr first = start < 0 ? 0 : l.integer(static_cast<std::size_t>(start));
      const ir::Expr increment = step < 0 ? 1 : l.integer(static_cast<std::size_t>(step), 1);
      l.define(0, [&](Indices i) {
        return Formula{&l.pool(), l.pool().index(i[0] * increment + first)};
      });
      return true;
    }
    const DType wide = counting_type(type);
    l.define(0, [&](Indices i) {
      Formula distance = counted(l, i[0], wide);
      if (step >= 0 && l.has(static_cast<std::size_t>(step))) {
        distance = distance * l.number(static_cast<std::size_t>(step), wide);
      }
      return start < 0 ? distance : l.number(static_cast<std::size_t>(start), wide) + distance;
    });
    return ir::is_floating_point(type);
  };
}

// linspace(start, end, steps): from either end to the middle. Integers, and steps that are rounded
// to a half, are ATen's.
bool lower_linspace(Lowering& l) {
  const DType type = l.meta(0).dtype;
  const std::optional<std::int64_t> steps = l.integer(2).constant();
  if (!steps || (type != DType::kFloat32 && type != DType::kFloat64)) {
    return false;
  }
  const auto held = [&](double x) {
    return type == DType::kFloat32 ? static_cast<double>(static_cast<float>(x)) : x;
  };
  const double start = held(l.real(0));
  const double end = held(l.real(1));
  const double step = *steps > 1 ? held((end - start) / static_cast<double>(*steps - 1)) : 0;
  l.define(0, [&](Indices i) {
    const Formula distance = counted(l, i[0], DType::kFloat64);
    const Formula place = counted(l, i[0], DType::kInt64);
    const Formula from_start = distance * step + start;
    const Formula from_end = end - (static_cast<double>(*steps - 1) - distance) * step;
    const Formula middle = place.number(static_cast<double>(*steps / 2));
    return *steps > 1 ? where(place < middle, from_start, from_end) : from_start;
  });
  return true;
}

// eye(n) and eye(n, m)
bool lower_eye(Lowering& l) {
  l.define(0, [&](Indices i) {
    return compare(
        ScalarOp::kEqual, counted(l, i[0], DType::kInt64), counted(l, i[1], DType::kInt64));
  });
  return true;
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
  table["aten.linspace.default"] = lower_linspace;
  table["aten.eye.default"] = lower_eye;
  table["aten.eye.m"] = lower_eye;
}

}  // namespace kiln::codegen
