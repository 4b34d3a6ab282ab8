// Arithmetic and conversions: one element from one element of each operand.

#include <cmath>
#include <string>

#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::DType;

namespace {

using Unary = Formula (*)(Formula);

// In ATen, arithmetic on bools has other semantics than on numbers.
bool is_number(DType dtype) {
  return dtype != DType::kBool;
}

Lower unary_of(ScalarOp op) {
  return [op](Lowering& l) {
    const DType type = l.meta(0).dtype;
    if (!is_number(type)) {
      return false;
    }
    l.define(0, [&](Indices i) { return unary(op, l.operand(0, i, type)); });
    return true;
  };
}

// Operators that are lowered for floating point only; other types are left to libtorch.
Lower floating_unary_of(Unary function) {
  return [function](Lowering& l) {
    const DType type = l.meta(0).dtype;
    if (!ir::is_floating_point(type)) {
      return false;
    }
    l.define(0, [&](Indices i) { return function(l.operand(0, i, type)); });
    return true;
  };
}

template <ScalarOp op>
Formula apply(Formula x) {
  return unary(op, x);
}

// Rounding an integer changes nothing.
template <ScalarOp op>
bool lower_rounding(Lowering& l) {
  const DType type = l.meta(0).dtype;
  l.define(0, [&](Indices i) {
    const Formula x = l.operand(0, i, type);
    return ir::is_floating_point(type) ? unary(op, x) : x;
  });
  return is_number(type);
}

Lower binary_of(ScalarOp op) {
  return [op](Lowering& l) {
    const DType type = l.meta(0).dtype;
    if (!is_number(type)) {
      return false;
    }
    l.define(0,
             [&](Indices i) { return binary(op, l.operand(0, i, type), l.operand(1, i, type)); });
    return true;
  };
}

// a + alpha * b, or the other way round.
Lower scaled_of(ScalarOp op, bool reversed) {
  return [op, reversed](Lowering& l) {
    const DType type = l.meta(0).dtype;
    if (!is_number(type)) {
      return false;
    }
    l.define(0, [&](Indices i) {
      Formula a = l.operand(0, i, type);
      Formula b = l.operand(1, i, type);
      if (reversed) {
        std::swap(a, b);
      }
      if (l.has(2)) {
        b = b * l.number(2, type);
      }
      return binary(op, a, b);
    });
    return true;
  };
}

// A power of two that is, like its reciprocal, a normal number in `type`'s compute type:
// multiplying by the reciprocal is exact and much cheaper than dividing.
bool has_exact_reciprocal(double value, DType type) {
  const int most = type == DType::kFloat64 ? std::numeric_limits<double>::max_exponent
                                           : std::numeric_limits<float>::max_exponent;
  int exponent = 0;
  return std::abs(std::frexp(value, &exponent)) == 0.5 && std::abs(exponent - 1) < most - 1;
}

bool lower_multiply(Lowering& l) {
  const DType type = l.meta(0).dtype;
  l.define(0, [&](Indices i) { return l.operand(0, i, type) * l.factor(1, i, type); });
  return is_number(type);
}

bool lower_divide(Lowering& l) {
  const DType type = l.meta(0).dtype;
  if (!ir::is_floating_point(type)) {
    return false;
  }
  // On a GPU, ATen multiplies by the reciprocal of any number.
  const bool on_cpu = l.device().type == ir::DeviceType::kCpu;
  const bool multiplies =
      !l.is_tensor(1) && (!on_cpu || (!l.varies(1) && has_exact_reciprocal(l.real(1), type)));
  l.define(0, [&](Indices i) {
    const Formula a = l.operand(0, i, type);
    return multiplies ? a * (1 / l.real(1)) : a / l.factor(1, i, type);
  });
  return true;
}

bool lower_divide_with_mode(Lowering& l) {
  return !l.has(2) && lower_divide(l);
}

bool lower_clamp(Lowering& l) {
  const DType type = l.meta(0).dtype;
  if (!is_number(type)) {
    return false;
  }
  l.define(0, [&](Indices i) {
    Formula x = l.operand(0, i, type);
    if (l.has(1)) {
      x = binary(ScalarOp::kMaximum, x, l.operand(1, i, type));
    }
    return l.has(2) ? binary(ScalarOp::kMinimum, x, l.operand(2, i, type)) : x;
  });
  return true;
}

Lower clamp_bound(ScalarOp op) {
  return [op](Lowering& l) {
    const DType type = l.meta(0).dtype;
    l.define(0,
             [&](Indices i) { return binary(op, l.operand(0, i, type), l.operand(1, i, type)); });
    return is_number(type);
  };
}

Formula power(Formula x, double exponent) {
  if (exponent == 2) {
    return x * x;
  }
  if (exponent == 3) {
    return x * x * x;
  }
  if (exponent == 1) {
    return x;
  }
  if (exponent == 0.5) {
    return unary(ScalarOp::kSqrt, x);
  }
  if (exponent == -0.5) {
    return unary(ScalarOp::kRsqrt, x);
  }
  if (exponent == -1) {
    return unary(ScalarOp::kReciprocal, x);
  }
  if (exponent == -2) {
    return unary(ScalarOp::kReciprocal, x * x);
  }
  return binary(ScalarOp::kPower, x, x.number(exponent));
}

bool lower_power_scalar(Lowering& l) {
  const DType type = l.meta(0).dtype;
  // On a CPU, ATen rounds the exponent to the tensor's type.
  const bool on_cpu = l.device().type == ir::DeviceType::kCpu;
  const double exponent = on_cpu ? ir::round_to(l.real(1), type) : l.real(1);
  if (!is_number(type) || (!ir::is_floating_point(type) && exponent != 2 && exponent != 3)) {
    return false;
  }
  l.define(0, [&](Indices i) {
    const Formula x = l.operand(0, i, type);
    // On a CPU, ATen uses sqrt and rsqrt for exponents ±0.5 except in float16, where it calls pow:
    // pow(-0, 0.5) is 0 and pow(-inf, 0.5) is inf.
    const bool is_root = std::abs(exponent) == 0.5;
    return on_cpu && type == DType::kFloat16 && is_root
               ? binary(ScalarOp::kPower, x, x.number(exponent))
               : power(x, exponent);
  });
  return true;
}

bool lower_power(Lowering& l) {
  const DType type = l.meta(0).dtype;
  if (!ir::is_floating_point(type)) {
    return false;
  }
  l.define(0, [&](Indices i) {
    return binary(ScalarOp::kPower, l.operand(0, i, type), l.operand(1, i, type));
  });
  return true;
}

// self + value * a * b, and with a quotient instead.
Lower ternary_of(ScalarOp op) {
  return [op](Lowering& l) {
    const DType type = l.meta(0).dtype;
    if (!ir::is_floating_point(type)) {
      return false;
    }
    l.define(0, [&](Indices i) {
      const Formula a = l.operand(1, i, type);
      const Formula b = l.operand(2, i, type);
      const Formula scaled = l.has(3) ? a * l.number(3, type) : a;
      return l.operand(0, i, type) + binary(op, scaled, b);
    });
    return true;
  };
}

bool lower_lerp(Lowering& l) {
  const DType type = l.meta(0).dtype;
  l.define(0, [&](Indices i) {
    const Formula start = l.operand(0, i, type);
    const Formula end = l.operand(1, i, type);
    const Formula weight = l.is_tensor(2) ? l.operand(2, i, type) : l.number(2, type);
    // From the nearer end, as ATen does, so that weight 1 gives `end` exactly.
    const Formula near_start = start + weight * (end - start);
    const Formula near_end = end - (end - start) * (1 - weight);
    return where(unary(ScalarOp::kAbsolute, weight) < weight.number(0.5), near_start, near_end);
  });
  return ir::is_floating_point(type);
}

// Result 0 is argument `source` in another type. A narrowing conversion rounds here, even if the
// result is never stored.
void define_converted(Lowering& l, std::size_t source) {
  const DType type = l.meta(0).dtype;
  const TensorId tensor = l.tensor(source);
  l.define(0, [&](Indices i) {
    const Formula x = l.broadcast(tensor, i);
    return l.dtype(tensor) == type ? x : rounded(x, type);
  });
}

bool lower_copy(Lowering& l) {
  define_converted(l, 0);
  return true;
}

// copy(self, source): the source in self's shape and type.
bool lower_copy_from(Lowering& l) {
  const ir::TensorMeta& meta = l.meta(0);
  define_converted(l, 1);
  // It has self's strides, gaps included.
  return is_dense(meta.sizes, meta.strides);
}

void add_unary(Lowerings& table) {
  table["aten.neg.default"] = unary_of(ScalarOp::kNegate);
  table["aten.abs.default"] = unary_of(ScalarOp::kAbsolute);
  table["aten.sign.default"] = unary_of(ScalarOp::kSign);
  table["aten.floor.default"] = lower_rounding<ScalarOp::kFloor>;
  table["aten.ceil.default"] = lower_rounding<ScalarOp::kCeil>;
  table["aten.round.default"] = lower_rounding<ScalarOp::kRound>;
  table["aten.trunc.default"] = lower_rounding<ScalarOp::kTruncate>;
  table["aten.reciprocal.default"] = floating_unary_of(apply<ScalarOp::kReciprocal>);
  table["aten.sqrt.default"] = floating_unary_of(apply<ScalarOp::kSqrt>);
  table["aten.rsqrt.default"] = floating_unary_of(apply<ScalarOp::kRsqrt>);
  table["aten.exp.default"] = floating_unary_of(apply<ScalarOp::kExp>);
  table["aten.exp2.default"] = floating_unary_of(apply<ScalarOp::kExp2>);
  table["aten.expm1.default"] = floating_unary_of(apply<ScalarOp::kExpm1>);
  table["aten.log.default"] = floating_unary_of(apply<ScalarOp::kLog>);
  table["aten.log2.default"] = floating_unary_of(apply<ScalarOp::kLog2>);
  table["aten.log10.default"] = floating_unary_of(apply<ScalarOp::kLog10>);
  table["aten.log1p.default"] = floating_unary_of(apply<ScalarOp::kLog1p>);
  table["aten.sin.default"] = floating_unary_of(apply<ScalarOp::kSin>);
  table["aten.cos.default"] = floating_unary_of(apply<ScalarOp::kCos>);
  table["aten.tanh.default"] = floating_unary_of(apply<ScalarOp::kTanh>);
  table["aten.erf.default"] = floating_unary_of(apply<ScalarOp::kErf>);
  table["aten.sigmoid.default"] = floating_unary_of(apply<ScalarOp::kSigmoid>);
}

// A scatter-add into zeros (an embedding's gradient) that is then added to another tensor: scatter
// into that tensor instead of into a full-size tensor of zeros.
bool lower_add_to_scatter(Lowering& l) {
  const ir::TensorMeta& meta = l.meta(0);
  if (!l.is_tensor(0) || !l.is_tensor(1) || l.real(2, 1) != 1 || l.tensor(0) == l.tensor(1) ||
      !is_dense(meta.sizes, meta.strides)) {
    return false;
  }
  for (const std::size_t i : {0U, 1U}) {
    const TensorId updated = l.tensor(i);
    const TensorId other = l.tensor(1 - i);
    if (l.sizes(updated) != meta.sizes || l.sizes(other) != meta.sizes ||
        l.dtype(updated) != meta.dtype || l.dtype(other) != meta.dtype) {
      continue;
    }
    if (std::optional<Updates> updates = l.single_use_scatter(i)) {
      // Adding 0 turns -0 into 0, as adding the scatter's zeros would.
      const auto start = [&](Indices k) {
        const Formula operand = l.operand(1 - i, k, meta.dtype);
        return operand + operand.number(0);
      };
      l.define_scatter(0, start, std::move(*updates));
      return true;
    }
  }
  return false;
}

void add_binary(Lowerings& table) {
  table["aten.add.Scalar"] = scaled_of(ScalarOp::kAdd, false);
  table["aten.add.Tensor"] = [plain = scaled_of(ScalarOp::kAdd, false)](Lowering& l) {
    return lower_add_to_scatter(l) || plain(l);
  };
  for (const auto* name : {"aten.sub.Tensor", "aten.sub.Scalar"}) {
    table[name] = scaled_of(ScalarOp::kSubtract, false);
  }
  for (const auto* name : {"aten.rsub.Tensor", "aten.rsub.Scalar"}) {
    table[name] = [](Lowering& l) {
      const DType type = l.meta(0).dtype;
      if (!is_number(type)) {
        return false;
      }
      l.define(0, [&](Indices i) {
        const Formula a = l.operand(0, i, type);
        return l.operand(1, i, type) - (l.has(2) ? a * l.number(2, type) : a);
      });
      return true;
    };
  }
  for (const auto* name : {"aten.mul.Tensor", "aten.mul.Scalar"}) {
    table[name] = lower_multiply;
  }
  for (const auto* name : {"aten.div.Tensor", "aten.div.Scalar"}) {
    table[name] = lower_divide;
  }
  for (const auto* name : {"aten.div.Tensor_mode", "aten.div.Scalar_mode"}) {
    table[name] = lower_divide_with_mode;
  }
  table["aten.maximum.default"] = binary_of(ScalarOp::kMaximum);
  table["aten.minimum.default"] = binary_of(ScalarOp::kMinimum);
  table["aten.pow.Tensor_Scalar"] = lower_power_scalar;
  table["aten.pow.Tensor_Tensor"] = lower_power;
  table["aten.pow.Scalar"] = lower_power;
}

}  // namespace

void add_pointwise_lowerings(Lowerings& table) {
  add_unary(table);
  add_binary(table);
  table["aten.clamp.default"] = lower_clamp;
  table["aten.clamp.Tensor"] = lower_clamp;
  table["aten.clamp_min.default"] = clamp_bound(ScalarOp::kMaximum);
  table["aten.clamp_max.default"] = clamp_bound(ScalarOp::kMinimum);
  table["aten.addcmul.default"] = ternary_of(ScalarOp::kMultiply);
  table["aten.addcdiv.default"] = ternary_of(ScalarOp::kDivide);
  table["aten.lerp.Scalar"] = lower_lerp;
  table["aten.lerp.Tensor"] = lower_lerp;
  for (const auto* name :
       {"aten._to_copy.default", "aten.clone.default", "aten.lift_fresh_copy.default"}) {
    table[name] = lower_copy;
  }
  table["aten.copy.default"] = lower_copy_from;
}

}  // namespace kiln::codegen
