#include "loop/scalar.hpp"

#include <array>
#include <bit>
#include <utility>

namespace kiln::codegen {

using ir::DType;

std::string_view to_string(ScalarOp op) {
  static constexpr std::array kNames = {"constant",
                                        "index",
                                        "read",
                                        "load",
                                        "reduced",
                                        "cast",
                                        "where",
                                        "add",
                                        "subtract",
                                        "multiply",
                                        "divide",
                                        "truncate_divide",
                                        "fmod",
                                        "check_index",
                                        "maximum",
                                        "minimum",
                                        "pow",
                                        "bit_and",
                                        "bit_or",
                                        "bit_xor",
                                        "bit_not",
                                        "equal",
                                        "not_equal",
                                        "less",
                                        "less_equal",
                                        "negate",
                                        "abs",
                                        "sign",
                                        "reciprocal",
                                        "sqrt",
                                        "rsqrt",
                                        "floor",
                                        "ceil",
                                        "round",
                                        "trunc",
                                        "exp",
                                        "exp2",
                                        "expm1",
                                        "log",
                                        "log2",
                                        "log10",
                                        "log1p",
                                        "sin",
                                        "cos",
                                        "tanh",
                                        "erf",
                                        "gelu",
                                        "sigmoid",
                                        "divide_by_one_plus_exp",
                                        "is_nan",
                                        "round_to_half",
                                        "round_to_bfloat16",
                                        "fence"};
  static_assert(kNames.size() == static_cast<std::size_t>(ScalarOp::kLast) + 1);
  return kNames[static_cast<std::size_t>(op)];
}

std::string_view infix_operator(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd: return " + ";
    case ScalarOp::kSubtract: return " - ";
    case ScalarOp::kMultiply: return " * ";
    case ScalarOp::kDivide:
    case ScalarOp::kTruncateDivide: return " / ";
    case ScalarOp::kFmod: return " % ";
    case ScalarOp::kAnd: return " & ";
    case ScalarOp::kOr: return " | ";
    case ScalarOp::kXor: return " ^ ";
    case ScalarOp::kEqual: return " == ";
    case ScalarOp::kNotEqual: return " != ";
    case ScalarOp::kLess: return " < ";
    case ScalarOp::kLessEqual: return " <= ";
    default: return {};
  }
}

int operation_cost(ScalarOp op) {
  switch (op) {
    case ScalarOp::kConstant:
    case ScalarOp::kRead:
    case ScalarOp::kReduced:
    case ScalarOp::kFence:
    case ScalarOp::kIndex: return 0;
    case ScalarOp::kDivide:
    case ScalarOp::kTruncateDivide:
    case ScalarOp::kFmod:
    case ScalarOp::kSqrt:
    case ScalarOp::kReciprocal: return 5;
    case ScalarOp::kCheckIndex: return 10;  // Each lane is asked for.
    case ScalarOp::kRsqrt: return 10;       // A root and a quotient, one after the other.
    case ScalarOp::kExp:
    case ScalarOp::kExp2:
    case ScalarOp::kLog:
    case ScalarOp::kLog2:
    case ScalarOp::kLog10: return 14;
    case ScalarOp::kPower: return 40;
    default: return op >= ScalarOp::kExpm1 && op <= ScalarOp::kDivideByOnePlusExp ? 22 : 1;
  }
}

DType compute_type(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? DType::kFloat32 : dtype;
}

std::optional<DType> rounded_type(ScalarOp op) {
  switch (op) {
    case ScalarOp::kRoundToHalf: return DType::kFloat16;
    case ScalarOp::kRoundToBFloat16: return DType::kBFloat16;
    default: return std::nullopt;
  }
}

bool Scalar::operator==(const Scalar& other) const {
  return op == other.op && dtype == other.dtype && integer == other.integer &&
         std::bit_cast<std::uint64_t>(real) == std::bit_cast<std::uint64_t>(other.real) &&
         tensor == other.tensor && operands == other.operands && indices == other.indices;
}

ScalarId ScalarPool::add(Scalar scalar) {
  std::size_t hash =
      static_cast<std::size_t>(scalar.op) * 131 + static_cast<std::size_t>(scalar.dtype);
  const auto mix = [&](std::size_t value) { hash = hash * 0x100000001b3ULL ^ value; };
  mix(std::bit_cast<std::uint64_t>(scalar.real));
  mix(static_cast<std::size_t>(scalar.integer));
  mix(scalar.tensor.index());
  for (const ScalarId operand : scalar.operands) {
    mix(operand.index());
  }
  for (const Index& index : scalar.indices) {
    mix(index.hash());
  }
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (scalars_[it->second.index()] == scalar) {
      return it->second;
    }
  }
  const ScalarId id(scalars_.size());
  scalars_.push_back(std::move(scalar));
  by_hash_.emplace(hash, id);
  return id;
}

ScalarId ScalarPool::constant(double value, DType dtype) {
  dtype = compute_type(dtype);
  if (ir::is_floating_point(dtype)) {
    return add({.op = ScalarOp::kConstant, .dtype = dtype, .real = value});
  }
  return integer(dtype == DType::kBool ? value != 0 : static_cast<std::int64_t>(value), dtype);
}

ScalarId ScalarPool::integer(std::int64_t value, DType dtype) {
  dtype = compute_type(dtype);
  if (ir::is_floating_point(dtype)) {
    return constant(static_cast<double>(value), dtype);
  }
  return add({.op = ScalarOp::kConstant,
              .dtype = dtype,
              .integer = dtype == DType::kBool ? (value != 0 ? 1 : 0) : value});
}

ScalarId ScalarPool::index(Index value) {
  if (value.is_constant() && value.constant().is_constant()) {
    return integer(*value.constant().constant(), DType::kInt64);
  }
  return add({.op = ScalarOp::kIndex, .dtype = DType::kInt64, .indices = {std::move(value)}});
}

ScalarId ScalarPool::read(TensorId tensor, std::vector<Index> indices, DType dtype) {
  return add({.op = ScalarOp::kRead,
              .dtype = compute_type(dtype),
              .tensor = tensor,
              .indices = std::move(indices)});
}

ScalarId ScalarPool::cast(ScalarId value, DType dtype) {
  dtype = compute_type(dtype);
  const Scalar& source = (*this)[value];
  if (source.dtype == dtype) {
    return value;
  }
  if (source.op == ScalarOp::kConstant) {
    if (!ir::is_floating_point(source.dtype)) {
      return integer(source.integer, dtype);
    }
    if (ir::is_floating_point(dtype)) {
      return constant(source.real, dtype);
    }
  }
  return add({.op = ScalarOp::kCast, .dtype = dtype, .operands = {value}});
}

ScalarId ScalarPool::where(ScalarId condition, ScalarId yes, ScalarId no) {
  const DType dtype = (*this)[yes].dtype;
  return add({.op = ScalarOp::kWhere, .dtype = dtype, .operands = {condition, yes, no}});
}

ScalarId ScalarPool::unary(ScalarOp op, ScalarId a) {
  const DType dtype = op == ScalarOp::kIsNan ? DType::kBool : (*this)[a].dtype;
  return add({.op = op, .dtype = dtype, .operands = {a}});
}

ScalarId ScalarPool::binary(ScalarOp op, ScalarId a, ScalarId b) {
  const DType dtype = (*this)[a].dtype;
  const auto is_constant = [&](ScalarId id, double value) {
    const Scalar& scalar = (*this)[id];
    return scalar.op == ScalarOp::kConstant &&
           (ir::is_floating_point(scalar.dtype) ? scalar.real == value
                                                : static_cast<double>(scalar.integer) == value);
  };
  // x + 0 is not x for x = -0, so only what is exact is folded.
  if (op == ScalarOp::kMultiply && is_constant(b, 1)) {
    return a;
  }
  if (op == ScalarOp::kMultiply && is_constant(a, 1)) {
    return b;
  }
  return add({.op = op, .dtype = dtype, .operands = {a, b}});
}

ScalarId ScalarPool::compare(ScalarOp op, ScalarId a, ScalarId b) {
  return add({.op = op, .dtype = DType::kBool, .operands = {a, b}});
}

}  // namespace kiln::codegen
