#include "backend/cuda/emit/scalar_writer.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "backend/cuda/emit/types.hpp"
#include "kiln/base/error.hpp"

namespace kiln::codegen::cuda {

using ir::DType;
using ir::Expr;

std::string NestText::size(const Expr& expr) const {
  if (const auto constant = expr.constant()) {
    return std::to_string(*constant);
  }
  auto found = std::find(sizes.begin(), sizes.end(), expr);
  if (found == sizes.end()) {
    found = sizes.insert(found, expr);
  }
  return code("sizes[$]", found - sizes.begin());
}

std::string NestText::operand(std::uint32_t number) const {
  return (nest.operands[number].written ? "out" : "in") + std::to_string(number);
}

namespace {

// The function of CUDA's and C's mathematical library.
std::string_view function_of(ScalarOp op) {
  switch (op) {
    case ScalarOp::kPower: return "pow";
    case ScalarOp::kSqrt: return "sqrt";
    case ScalarOp::kFloor: return "floor";
    case ScalarOp::kCeil: return "ceil";
    case ScalarOp::kRound: return "rint";
    case ScalarOp::kTruncate: return "trunc";
    case ScalarOp::kExp2: return "exp2";
    case ScalarOp::kExpm1: return "expm1";
    case ScalarOp::kLog: return "log";
    case ScalarOp::kLog2: return "log2";
    case ScalarOp::kLog10: return "log10";
    case ScalarOp::kLog1p: return "log1p";
    case ScalarOp::kSin: return "sin";
    case ScalarOp::kCos: return "cos";
    case ScalarOp::kTanh: return "tanh";
    case ScalarOp::kErf: return "erf";
    default: return {};
  }
}

template <class Visit>
void for_each_operand(const Scalar& scalar, const Visit& visit) {
  std::for_each(scalar.operands.begin(), scalar.operands.end(), visit);
  for (const Index& index : scalar.indices) {
    for_each_computed(index, visit);
  }
}

}  // namespace

std::string ScalarWriter::value(ScalarId id) {
  if (const auto found = names_.find(id); found != names_.end()) {
    return found->second;
  }
  const Scalar& scalar = text_.scalar(id);
  if (scalar.op == ScalarOp::kConstant) {
    return literal(scalar);
  }
  if (scalar.op == ScalarOp::kReduced) {
    return "r" + std::to_string(scalar.integer);
  }
  std::string name;
  if (scalar.op == ScalarOp::kWhere && (loads(scalar.operands[1]) || loads(scalar.operands[2]))) {
    name = choose(scalar);
  } else {
    const std::string expression = compute(scalar);
    name = "s" + std::to_string(next_++);
    text_.out.line("const $ $ = $;", compute_type(scalar.dtype), name, expression);
  }
  names_[id] = name;
  return name;
}

bool ScalarWriter::loads(ScalarId id) {
  if (const auto found = loads_.find(id); found != loads_.end()) {
    return found->second;
  }
  const Scalar& scalar = text_.scalar(id);
  bool any = scalar.op == ScalarOp::kLoad || scalar.op == ScalarOp::kCheckIndex;
  for_each_operand(scalar, [&](ScalarId operand) { any = any || loads(operand); });
  loads_[id] = any;
  return any;
}

std::string ScalarWriter::choose(const Scalar& scalar) {
  const std::string condition = value(scalar.operands[0]);
  const std::string name = "s" + std::to_string(next_++);
  text_.out.line("$ $;", compute_type(scalar.dtype), name);
  const std::unordered_map<ScalarId, std::string> outside = names_;
  {
    const CodeWriter::Scope branch = text_.out.scope("if ($)", condition);
    text_.out.line("$ = $;", name, value(scalar.operands[1]));
    names_ = outside;
  }
  const CodeWriter::Scope other = text_.out.scope("else");
  text_.out.line("$ = $;", name, value(scalar.operands[2]));
  names_ = outside;
  return name;
}

std::string ScalarWriter::load(const Scalar& scalar) {
  const auto operand = static_cast<std::uint32_t>(scalar.integer);
  bool is_computed = false;
  for_each_computed(scalar.indices[0], [&](ScalarId) { is_computed = true; });
  const std::string element = code("value($[$])", text_.operand(operand), index(scalar.indices[0]));
  return is_computed && text_.checks_indices ? "ok ? " + element + " : 0" : element;
}

std::string ScalarWriter::compute(const Scalar& scalar) {
  if (scalar.op == ScalarOp::kIndex) {
    return number(scalar.indices[0]);
  }
  if (scalar.op == ScalarOp::kLoad) {
    return load(scalar);
  }
  std::vector<std::string> operands;
  for (const ScalarId operand : scalar.operands) {
    operands.push_back(value(operand));
  }
  return operation(scalar, operands);
}

std::string ScalarWriter::operation(const Scalar& scalar,
                                    const std::vector<std::string>& operands) const {
  const std::string type(compute_type(scalar.dtype));
  const bool is_real = ir::is_floating_point(scalar.dtype);
  const std::string& a = operands[0];
  const std::string suffix = scalar.dtype == DType::kFloat64 ? "" : "f";
  const bool is_float = scalar.dtype == DType::kFloat32;
  const bool is_approximate = is_float && text_.is_approximate;
  const std::string exponential = is_approximate ? "approximate_exp(" : "exp" + suffix + "(";
  if (is_approximate && scalar.op == ScalarOp::kDivide) {
    return code("approximate_quotient($, $)", a, operands[1]);
  }
  if (scalar.op == ScalarOp::kExp) {
    return exponential + a + ")";
  }
  // Integers wrap, which those with a sign do not in C++.
  const std::string wrapping = scalar.dtype == DType::kInt64   ? "(unsigned long long)"
                               : ir::is_integral(scalar.dtype) ? "(unsigned)"
                                                               : "";
  if (const std::string_view symbol = infix_operator(scalar.op); !symbol.empty()) {
    const bool is_fenced = std::ranges::any_of(scalar.operands, [&](ScalarId operand) {
      return text_.scalar(operand).op == ScalarOp::kFence;
    });
    if (is_fenced) {  // These are never contracted.
      return code("__$$_rn($, $)",
                  scalar.dtype == DType::kFloat64 ? "d" : "f",
                  scalar.op == ScalarOp::kAdd ? "add" : "sub",
                  a,
                  operands[1]);
    }
    if (scalar.op == ScalarOp::kAdd || scalar.op == ScalarOp::kSubtract ||
        scalar.op == ScalarOp::kMultiply) {
      return code("($)($$$$$)", type, wrapping, a, symbol, wrapping, operands[1]);
    }
    return code("($)($$$)", type, a, symbol, operands[1]);
  }
  if (const std::string_view function = function_of(scalar.op); !function.empty()) {
    return code("$$($$)", function, suffix, a, operands.size() > 1 ? ", " + operands[1] : "");
  }
  switch (scalar.op) {
    case ScalarOp::kCast: return converted(scalar, a);
    case ScalarOp::kWhere: return a + " ? " + operands[1] + " : " + operands[2];
    case ScalarOp::kCheckIndex: return code("check_index($, $, ok)", a, operands[1]);
    case ScalarOp::kMaximum: return code("maximum($, $)", a, operands[1]);
    case ScalarOp::kMinimum: return code("minimum($, $)", a, operands[1]);
    case ScalarOp::kNot: return scalar.dtype == DType::kBool ? "!" + a : "(" + type + ")~" + a;
    case ScalarOp::kNegate: return code("($)-$($)", type, wrapping, a);
    case ScalarOp::kAbsolute:
      return is_real
                 ? "fabs" + suffix + "(" + a + ")"
                 : "(" + type + ")(" + a + " < 0 ? -" + wrapping + a + " : " + wrapping + a + ")";
    case ScalarOp::kSign: return code("sign($)", a);
    case ScalarOp::kReciprocal: return "1 / " + a;
    case ScalarOp::kFence: return a;
    case ScalarOp::kRsqrt: return code("1 / sqrt$($)", suffix, a);
    case ScalarOp::kGelu:
      return code("($)0.5 * $ * (1 + erf$($ * ($)0.70710678118654752))", type, a, suffix, a, type);
    // The divisor is 1 or more, so its reciprocal is at most one unit off.
    case ScalarOp::kSigmoid:
      return is_float ? "reciprocal(1 + " + exponential + "-(" + a + ")))"
                      : "1 / (1 + " + exponential + "-(" + a + ")))";
    case ScalarOp::kDivideByOnePlusExp:
      return is_float ? a + " * reciprocal(1 + " + exponential + operands[1] + "))"
                      : a + " / (1 + " + exponential + operands[1] + "))";
    case ScalarOp::kIsNan: return a + " != " + a;
    case ScalarOp::kRoundToHalf: return code("value(stored<Half>($))", a);
    case ScalarOp::kRoundToBFloat16: return code("value(stored<BFloat16>($))", a);
    default:
      throw Error(ErrorCode::kInternal, "no CUDA text for " + std::string(to_string(scalar.op)));
  }
}

std::string ScalarWriter::converted(const Scalar& scalar, const std::string& from) const {
  if (scalar.dtype == DType::kBool) {
    return from + " != 0";
  }
  const std::string type = code("($)", compute_type(scalar.dtype));
  // Below 0 it wraps, as ATen's does.
  const bool is_real = ir::is_floating_point(text_.scalar(scalar.operands[0]).dtype);
  return type + (scalar.dtype == DType::kUInt8 && is_real ? "(long long)" : "") + from;
}

// Positions fit in an `Int`, and what is computed of them may not.
std::string ScalarWriter::number(const Index& value) {
  double largest = 0;
  const auto add = [&](const Expr& factor, double count) {
    largest += std::abs(static_cast<double>(factor.constant().value_or(0))) * count;
  };
  add(value.constant(), 1);
  for (const Index::Term& term : value.terms()) {
    const bool is_variable = term.atom->kind == Atom::Kind::kVariable && !text_.nest.update;
    const std::optional<std::int64_t> extent =
        is_variable ? text_.nest.extents[static_cast<std::size_t>(term.atom->variable)].constant()
                    : std::nullopt;
    add(term.factor, extent ? static_cast<double>(*extent) : 0x1p31);
  }
  const bool fits = largest < 0x1p31;
  std::string text = fits ? index(value) : "(long long)" + text_.size(value.constant());
  for (const Index::Term& term : value.terms()) {
    if (!fits) {
      text += " + (long long)(" + atom(*term.atom) + ") * " + text_.size(term.factor);
    }
  }
  return text;
}

std::string ScalarWriter::atom(const Atom& atom) {
  switch (atom.kind) {
    case Atom::Kind::kVariable: return std::string(1, "omj"[atom.variable]);
    case Atom::Kind::kComputed: return "(Int)" + value(atom.scalar);
    case Atom::Kind::kQuotient:
      return code("($) / $", index(atom.operand), text_.size(atom.divisor));
    case Atom::Kind::kRemainder:
      return code("($) % $", index(atom.operand), text_.size(atom.divisor));
  }
  return {};
}

std::string ScalarWriter::index(const Index& index) {
  std::string sum;
  for (const Index::Term& term : index.terms()) {
    const std::string factor = text_.size(term.factor);
    sum += (sum.empty() ? "" : " + ");
    sum += factor == "1" ? atom(*term.atom) : "(" + atom(*term.atom) + ") * " + factor;
  }
  const std::string constant = text_.size(index.constant());
  if (sum.empty()) {
    return "(Int)" + constant;
  }
  return constant == "0" ? sum : sum + " + " + constant;
}

void collect_unconditional_loads(const ScalarPool& pool,
                                 ScalarId root,
                                 std::unordered_set<ScalarId>& seen,
                                 std::vector<ScalarId>& loads) {
  if (!seen.insert(root).second) {
    return;
  }
  const Scalar& scalar = pool[root];
  if (scalar.op == ScalarOp::kLoad) {
    loads.push_back(root);
  }
  if (scalar.op == ScalarOp::kWhere) {
    collect_unconditional_loads(pool, scalar.operands[0], seen, loads);
    return;
  }
  for_each_operand(
      scalar, [&](ScalarId operand) { collect_unconditional_loads(pool, operand, seen, loads); });
}

namespace {

bool leaps(const ScalarPool& pool, const Scalar& scalar) {
  switch (scalar.op) {
    case ScalarOp::kSign:
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kRound:
    case ScalarOp::kTruncate: return true;
    case ScalarOp::kCast:
      return ir::is_floating_point(pool[scalar.operands[0]].dtype) &&
             !ir::is_floating_point(scalar.dtype);
    default: return is_comparison(scalar.op);
  }
}

bool has_approximate_parts(const ScalarPool& pool, ScalarId root) {
  const Scalar& scalar = pool[root];
  bool any = scalar.op == ScalarOp::kDivide || scalar.op == ScalarOp::kExp ||
             scalar.op == ScalarOp::kSigmoid || scalar.op == ScalarOp::kDivideByOnePlusExp ||
             scalar.op == ScalarOp::kReduced;
  for_each_operand(scalar,
                   [&](ScalarId operand) { any = any || has_approximate_parts(pool, operand); });
  return any;
}

}  // namespace

bool needs_exact_values(const ScalarPool& pool, ScalarId root) {
  const Scalar& scalar = pool[root];
  bool any = leaps(pool, scalar) && has_approximate_parts(pool, root);
  for_each_operand(scalar,
                   [&](ScalarId operand) { any = any || needs_exact_values(pool, operand); });
  return any;
}

bool checks_index(const ScalarPool& pool, ScalarId root) {
  const Scalar& scalar = pool[root];
  bool any = scalar.op == ScalarOp::kCheckIndex;
  for_each_operand(scalar, [&](ScalarId operand) { any = any || checks_index(pool, operand); });
  return any;
}

}  // namespace kiln::codegen::cuda
