#include "loop/evaluate_scalar.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "kiln/base/error.hpp"

namespace kiln::codegen {

using ir::DType;

namespace {

double pick(double a, double b, bool larger) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return larger ? std::fmax(a, b) : std::fmin(a, b);
}

double real_unary(ScalarOp op, double x) {
  switch (op) {
    case ScalarOp::kNegate: return -x;
    case ScalarOp::kAbsolute: return std::fabs(x);
    case ScalarOp::kSign: return x > 0 ? 1 : x < 0 ? -1 : 0;
    case ScalarOp::kReciprocal: return 1 / x;
    case ScalarOp::kSqrt: return std::sqrt(x);
    case ScalarOp::kRsqrt: return 1 / std::sqrt(x);
    case ScalarOp::kFloor: return std::floor(x);
    case ScalarOp::kCeil: return std::ceil(x);
    case ScalarOp::kRound: return std::nearbyint(x);
    case ScalarOp::kTruncate: return std::trunc(x);
    case ScalarOp::kExp: return std::exp(x);
    case ScalarOp::kExp2: return std::exp2(x);
    case ScalarOp::kExpm1: return std::expm1(x);
    case ScalarOp::kLog: return std::log(x);
    case ScalarOp::kLog2: return std::log2(x);
    case ScalarOp::kLog10: return std::log10(x);
    case ScalarOp::kLog1p: return std::log1p(x);
    case ScalarOp::kSin: return std::sin(x);
    case ScalarOp::kCos: return std::cos(x);
    case ScalarOp::kTanh: return std::tanh(x);
    case ScalarOp::kErf: return std::erf(x);
    case ScalarOp::kGelu: return x * 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2);
    case ScalarOp::kSigmoid: return 1 / (1 + std::exp(-x));
    case ScalarOp::kFence: return x;
    case ScalarOp::kRoundToHalf: return ir::round_to(x, DType::kFloat16);
    case ScalarOp::kRoundToBFloat16: return ir::round_to(x, DType::kBFloat16);
    default: throw Error(ErrorCode::kInternal, "no meaning for " + std::string(to_string(op)));
  }
}

double real_binary(ScalarOp op, double a, double b) {
  switch (op) {
    case ScalarOp::kAdd: return a + b;
    case ScalarOp::kSubtract: return a - b;
    case ScalarOp::kMultiply: return a * b;
    case ScalarOp::kDivide: return a / b;
    case ScalarOp::kMaximum: return pick(a, b, true);
    case ScalarOp::kMinimum: return pick(a, b, false);
    case ScalarOp::kPower: return std::pow(a, b);
    case ScalarOp::kDivideByOnePlusExp: return a / (1 + std::exp(b));
    default: throw Error(ErrorCode::kInternal, "no meaning for " + std::string(to_string(op)));
  }
}

std::int64_t integer_binary(ScalarOp op, std::int64_t a, std::int64_t b) {
  const auto wrap = [](std::uint64_t x) { return static_cast<std::int64_t>(x); };
  const auto ua = static_cast<std::uint64_t>(a);
  const auto ub = static_cast<std::uint64_t>(b);
  switch (op) {
    case ScalarOp::kAdd: return wrap(ua + ub);
    case ScalarOp::kSubtract: return wrap(ua - ub);
    case ScalarOp::kMultiply: return wrap(ua * ub);
    case ScalarOp::kTruncateDivide: return a / b;
    case ScalarOp::kFmod: return a % b;
    case ScalarOp::kCheckIndex:
      if (a < 0 || a >= b) {
        throw Error(ErrorCode::kInvalidArgument, "an index is out of range");
      }
      return a;
    case ScalarOp::kMaximum: return std::max(a, b);
    case ScalarOp::kMinimum: return std::min(a, b);
    case ScalarOp::kAnd: return a & b;
    case ScalarOp::kOr: return a | b;
    case ScalarOp::kXor: return a ^ b;
    default: throw Error(ErrorCode::kInternal, "no meaning for " + std::string(to_string(op)));
  }
}

std::int64_t integer_unary(ScalarOp op, DType dtype, std::int64_t x) {
  switch (op) {
    case ScalarOp::kNegate: return -x;
    case ScalarOp::kAbsolute: return x < 0 ? -x : x;
    case ScalarOp::kSign: return x > 0 ? 1 : x < 0 ? -1 : 0;
    case ScalarOp::kNot: return dtype == DType::kBool ? (x == 0 ? 1 : 0) : ~x;
    default: throw Error(ErrorCode::kInternal, "no meaning for " + std::string(to_string(op)));
  }
}

bool compare(ScalarOp op, auto a, auto b) {
  switch (op) {
    case ScalarOp::kEqual: return a == b;
    case ScalarOp::kNotEqual: return a != b;
    case ScalarOp::kLess: return a < b;
    default: return a <= b;
  }
}

}  // namespace

std::vector<std::int64_t> constant_sizes(const std::vector<ir::Expr>& sizes) {
  std::vector<std::int64_t> result;
  for (const ir::Expr& size : sizes) {
    result.push_back(size.constant().value());
  }
  return result;
}

Element fit(DType dtype, Element e) {
  switch (dtype) {
    case DType::kFloat32: e.real = static_cast<double>(static_cast<float>(e.real)); break;
    case DType::kInt32: e.integer = static_cast<std::int32_t>(e.integer); break;
    case DType::kInt16: e.integer = static_cast<std::int16_t>(e.integer); break;
    case DType::kInt8: e.integer = static_cast<std::int8_t>(e.integer); break;
    case DType::kUInt8: e.integer = static_cast<std::uint8_t>(e.integer); break;
    case DType::kBool: e.integer = e.integer != 0 ? 1 : 0; break;
    default: break;
  }
  return e;
}

Element neutral(Reduction reduction) {
  switch (reduction) {
    case Reduction::kProduct: return {1, 1};
    case Reduction::kAll: return {1, 1};
    case Reduction::kMaximum:
      return {-std::numeric_limits<double>::infinity(), std::numeric_limits<std::int64_t>::min()};
    case Reduction::kMinimum:
      return {std::numeric_limits<double>::infinity(), std::numeric_limits<std::int64_t>::max()};
    default: return {0, 0};
  }
}

Element combine(Reduction reduction, Element a, Element b) {
  switch (reduction) {
    case Reduction::kSum: return {a.real + b.real, a.integer + b.integer};
    case Reduction::kProduct: return {a.real * b.real, a.integer * b.integer};
    case Reduction::kMaximum: return {pick(a.real, b.real, true), std::max(a.integer, b.integer)};
    case Reduction::kMinimum: return {pick(a.real, b.real, false), std::min(a.integer, b.integer)};
    case Reduction::kAny: return {0, a.integer | b.integer};
    case Reduction::kAll: return {0, a.integer & b.integer};
  }
  return a;
}

std::int64_t ScalarEvaluator::index(const Index& index, const Point& point) {
  std::int64_t total = index.constant().constant().value();
  for (const Index::Term& term : index.terms()) {
    const Atom& atom = *term.atom;
    std::int64_t value = 0;
    switch (atom.kind) {
      case Atom::Kind::kVariable: value = point[static_cast<std::size_t>(atom.variable)]; break;
      case Atom::Kind::kComputed: value = scalar(atom.scalar, point).integer; break;
      case Atom::Kind::kQuotient:
        value = this->index(atom.operand, point) / *atom.divisor.constant();
        break;
      case Atom::Kind::kRemainder:
        value = this->index(atom.operand, point) % *atom.divisor.constant();
        break;
    }
    total += value * *term.factor.constant();
  }
  return total;
}

Element ScalarEvaluator::scalar(ScalarId id, const Point& point) {
  const Scalar& s = pool_[id];
  return fit(s.dtype, operation(s, point));
}

Element ScalarEvaluator::operation(const Scalar& s, const Point& point) {
  switch (s.op) {
    case ScalarOp::kConstant: return {s.real, s.integer};
    case ScalarOp::kIndex: return {0, index(s.indices[0], point)};
    case ScalarOp::kRead:
    case ScalarOp::kLoad:
    case ScalarOp::kReduced: return leaf(s, point);
    case ScalarOp::kWhere:
      return scalar(s.operands[scalar(s.operands[0], point).integer != 0 ? 1 : 2], point);
    default: break;
  }
  const DType from = pool_[s.operands[0]].dtype;
  const bool real = ir::is_floating_point(from);
  const Element a = scalar(s.operands[0], point);
  if (s.op == ScalarOp::kCast) {
    if (real) {
      const bool to_bool = s.dtype == DType::kBool;
      return {a.real,
              to_bool                          ? a.real != 0
              : ir::is_floating_point(s.dtype) ? 0
                                               : static_cast<std::int64_t>(a.real)};
    }
    return {static_cast<double>(a.integer), a.integer};
  }
  if (s.op == ScalarOp::kIsNan) {
    return {0, std::isnan(a.real) ? 1 : 0};
  }
  if (s.operands.size() == 1) {
    return real ? Element{real_unary(s.op, a.real), 0}
                : Element{0, integer_unary(s.op, s.dtype, a.integer)};
  }
  const Element b = scalar(s.operands[1], point);
  if (is_comparison(s.op)) {
    return {0, real ? compare(s.op, a.real, b.real) : compare(s.op, a.integer, b.integer)};
  }
  return real ? Element{real_binary(s.op, a.real, b.real), 0}
              : Element{0, integer_binary(s.op, a.integer, b.integer)};
}

}  // namespace kiln::codegen
