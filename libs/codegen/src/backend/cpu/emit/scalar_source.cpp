#include "backend/cpu/emit/scalar_source.hpp"

#include <cmath>

#include "kiln/base/error.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

std::string TextContext::text(const Expr& expr) const {
  if (const auto constant = expr.constant()) {
    return std::to_string(*constant);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == expr) {
      return code("sizes[$]", i);
    }
  }
  sizes.push_back(expr);
  return code("sizes[$]", sizes.size() - 1);
}

std::string TextContext::operand(std::uint32_t number) const {
  return (kernel.operands[number].written ? "out" : "in") + std::to_string(number);
}

std::string literal(const Scalar& constant) {
  if (!ir::is_floating_point(constant.dtype)) {
    return integer_literal(constant.integer, scalar_type(constant.dtype));
  }
  return constant.dtype == DType::kFloat32 ? float_literal(static_cast<float>(constant.real))
                                           : double_literal(constant.real);
}

Block::Block(TextContext& context,
             Block* parent,
             LoopDepth depth,
             std::string inner,
             std::string count,
             std::string suffix)
    : context_(context),
      parent_(parent),
      depth_(depth),
      inner_(std::move(inner)),
      count_(std::move(count)),
      suffix_(std::move(suffix)),
      outer_(parent != nullptr ? parent->outer_ : "o") {}

std::string Block::find(ScalarId id) const {
  for (const Block* block = this; block != nullptr; block = block->parent_) {
    if (const auto found = block->names_.find(id); found != block->names_.end()) {
      return found->second;
    }
  }
  return {};
}

std::string Block::value(ScalarId id) {
  if (std::string name = find(id); !name.empty()) {
    return name;
  }
  const Scalar& scalar = context_.scalar(id);
  if (scalar.op == ScalarOp::kConstant) {
    return literal(scalar);
  }
  const LoopDepth depth = context_.depths.of(id);
  const bool is_vector = depth == LoopDepth::kInner && depth_ == LoopDepth::kInner;
  const std::string text = compute(id, is_vector);
  std::string name = "v" + std::to_string(id.index()) + suffix_;
  context_.out.line("const $ $ = $;",
                    is_vector ? vector_type(scalar.dtype) : scalar_type(scalar.dtype),
                    name,
                    text);
  names_[id] = name;
  return name;
}

std::string Block::vector(ScalarId id) {
  const std::string name = value(id);
  if (context_.depths.of(id) == LoopDepth::kInner) {
    return name;
  }
  return code("splat($)", name);
}

std::string Block::atom(const Atom& atom) {
  switch (atom.kind) {
    case Atom::Kind::kVariable:
      return atom.variable == kOuter ? outer_ : atom.variable == kMiddle ? "m" : "(" + inner_ + ")";
    case Atom::Kind::kComputed: return value(atom.scalar);
    case Atom::Kind::kQuotient:
      return code("($) / $", index(atom.operand), context_.text(atom.divisor));
    case Atom::Kind::kRemainder:
      return code("($) % $", index(atom.operand), context_.text(atom.divisor));
  }
  return {};
}

std::string Block::index(const Index& index) {
  std::string result;
  for (const Index::Term& term : index.terms()) {
    std::string text = atom(*term.atom);
    if (!(term.factor == Expr(1))) {
      if (term.atom->kind != Atom::Kind::kVariable && term.atom->kind != Atom::Kind::kComputed) {
        text = "(" + text + ")";
      }
      text += " * " + context_.text(term.factor);
    }
    result += (result.empty() ? "" : " + ") + text;
  }
  if (!(index.constant() == Expr(0)) || result.empty()) {
    result += (result.empty() ? "" : " + ") + context_.text(index.constant());
  }
  return result;
}

// An index that changes from lane to lane in a way that no stride describes.
std::string Block::index_vector(const Index& index) {
  std::string result;
  for (const Index::Term& term : index.terms()) {
    std::string text;
    const Atom& part = *term.atom;
    if (context_.depths.of(Index::of(term.atom)) < LoopDepth::kInner) {
      text = "splat((Index)(" + atom(part) + "))";
    } else if (part.kind == Atom::Kind::kVariable) {
      // With AVX-512 GCC (12, 13) adds the wrong number where a sum or a product is chosen by a
      // condition that it finds out to hold only after it has unrolled a loop.
      text = "iota(opaque(" + inner_ + "))";
    } else if (part.kind == Atom::Kind::kComputed) {
      text = value(part.scalar);
    } else {
      text = "(" + index_vector(part.operand) +
             (part.kind == Atom::Kind::kQuotient ? ") / " : ") % ") + context_.text(part.divisor);
      text = "(" + text + ")";
    }
    if (!(term.factor == Expr(1))) {
      text += " * " + context_.text(term.factor);
    }
    result += (result.empty() ? "" : " + ") + text;
  }
  if (!(index.constant() == Expr(0)) || result.empty()) {
    result += (result.empty() ? "splat((Index)" : " + ") + context_.text(index.constant()) +
              (result.empty() ? ")" : "");
  }
  return result;
}

std::string Block::with_count(const std::string& arguments) const {
  return code("($$)", arguments, count_.empty() ? "" : ", " + count_);
}

bool Block::is_lanewise(const Index& address) const {
  bool lanewise = !address.factor_of(kInner);
  for_each_computed(address, [&](ScalarId id) {
    lanewise = lanewise || context_.depths.of(id) == LoopDepth::kInner;
  });
  return lanewise;
}

std::string Block::load_vector(const std::string& base, const Index& address) {
  // Vectors of a whole loop begin where a repetition does; those of a segment may not.
  const std::optional<std::int64_t> times = repetition_of(address);
  if (times && context_.kernel.segments.empty()) {
    return code("load_repeated<$>$", *times, with_count(base + " + (" + index(address) + ")"));
  }
  if (is_lanewise(address)) {
    return "gather" + with_count(base + ", " + index_vector(address));
  }
  const std::optional<Expr> stride = address.factor_of(kInner);
  const std::string place = code("$ + ($)", base, index(address));
  if (*stride == Expr(1)) {
    return "load" + with_count(place);
  }
  return "load_strided" + with_count(place + ", " + context_.text(*stride));
}

void Block::store_vector(const std::string& base, const Index& address, const std::string& value) {
  if (is_lanewise(address)) {
    context_.out.line("scatter$;", with_count(base + ", " + index_vector(address) + ", " + value));
    return;
  }
  const std::optional<Expr> stride = address.factor_of(kInner);
  const std::string place = code("$ + ($)", base, index(address));
  if (*stride == Expr(1)) {
    context_.out.line("store$;", with_count(place + ", " + value));
  } else {
    context_.out.line("store_strided$;",
                      with_count(place + ", " + context_.text(*stride) + ", " + value));
  }
}

std::string Block::compute(ScalarId id, bool is_vector) {
  const Scalar& scalar = context_.scalar(id);
  switch (scalar.op) {
    case ScalarOp::kLoad: {
      const auto number = static_cast<std::uint32_t>(scalar.integer);
      const std::string base = context_.operand(number);
      if (is_vector) {
        return load_vector(base, scalar.indices[0]);
      }
      return code("load_one($ + ($))", base, index(scalar.indices[0]));
    }
    case ScalarOp::kIndex:
      return is_vector ? index_vector(scalar.indices[0]) : index(scalar.indices[0]);
    case ScalarOp::kReduced:
      throw Error(ErrorCode::kInternal, "a reduction is used before it is done");
    default: return is_vector ? compute_vector_operation(scalar) : compute_scalar_operation(scalar);
  }
}

// Numbers below zero have no unsigned value in C++, and wrap in ATen.
static bool is_wrapped(DType from, DType to) {
  return ir::is_floating_point(from) && to == DType::kUInt8;
}

std::string Block::cast_vector(const Scalar& scalar) {
  const ScalarId source = scalar.operands[0];
  const DType from = context_.scalar(source).dtype;
  const std::string operand = vector(source);
  const std::string to(vector_type(scalar.dtype));
  if (scalar.dtype == DType::kBool) {
    return code("__builtin_convertvector($ != 0, Mask)", operand);
  }
  if (from == DType::kBool) {
    return code("__builtin_convertvector($ & 1, $)", operand, to);
  }
  if (is_wrapped(from, scalar.dtype)) {
    return code("__builtin_convertvector(__builtin_convertvector($, $), $)",
                operand,
                vector_type(DType::kInt64),
                to);
  }
  return code("__builtin_convertvector($, $)", operand, to);
}

std::string Block::compute_vector_operation(const Scalar& scalar) {
  const DType type = scalar.dtype;
  if (scalar.op == ScalarOp::kCast) {
    return cast_vector(scalar);
  }
  if (scalar.op == ScalarOp::kWhere) {
    // One condition for all lanes is a branch: as a mask GCC would get it wrong (index_vector).
    if (context_.depths.of(scalar.operands[0]) < LoopDepth::kInner) {
      return value(scalar.operands[0]) + " ? " + vector(scalar.operands[1]) + " : " +
             vector(scalar.operands[2]);
    }
    // The condition needs lanes as wide as what it selects.
    std::string condition = vector(scalar.operands[0]);
    const int bytes = type == DType::kBool ? 4 : ir::size_of(type);
    if (bytes != 4) {
      const DType wide = bytes == 8 ? DType::kInt64 : bytes == 2 ? DType::kInt16 : DType::kInt8;
      condition =
          "__builtin_convertvector(" + condition + ", " + std::string(vector_type(wide)) + ")";
    }
    return condition + " ? " + vector(scalar.operands[1]) + " : " + vector(scalar.operands[2]);
  }
  std::vector<std::string> operands;
  for (const ScalarId operand : scalar.operands) {
    operands.push_back(vector(operand));
  }
  if (const std::string_view symbol = infix_operator(scalar.op); !symbol.empty()) {
    const DType compared = context_.scalar(scalar.operands[0]).dtype;
    // Bools are masks, in which true is -1.
    if ((scalar.op == ScalarOp::kLess || scalar.op == ScalarOp::kLessEqual) &&
        compared == DType::kBool) {
      std::swap(operands[0], operands[1]);
    }
    std::string text = operands[0] + std::string(symbol) + operands[1];
    if (is_comparison(scalar.op)) {
      if (compared != DType::kBool && ir::size_of(compared) != 4) {
        return code("__builtin_convertvector($, Mask)", text);
      }
    }
    return text;
  }
  switch (scalar.op) {
    case ScalarOp::kNegate: return code("-($)", operands[0]);
    case ScalarOp::kNot: return "~" + operands[0];
    case ScalarOp::kReciprocal: return "1 / " + operands[0];
    case ScalarOp::kFence: return code("fence($)", operands[0]);
    case ScalarOp::kIsNan:
      return code("__builtin_convertvector($ != $, Mask)", operands[0], operands[0]);
    case ScalarOp::kRsqrt: return code("1 / sqrt($)", operands[0]);
    case ScalarOp::kMaximum:
    case ScalarOp::kMinimum:
      // A bound that is not NaN needs no second test.
      if (const Scalar& bound = context_.scalar(scalar.operands[1]);
          bound.op == ScalarOp::kConstant && !std::isnan(bound.real)) {
        return operands[0] + (scalar.op == ScalarOp::kMaximum ? " < " : " > ") + operands[1] +
               " ? " + operands[1] + " : " + operands[0];
      }
      break;
    default: break;
  }
  const std::string name(to_string(scalar.op));
  std::string arguments = operands[0];
  for (std::size_t i = 1; i < operands.size(); ++i) {
    arguments += ", " + operands[i];
  }
  if (scalar.op == ScalarOp::kCheckIndex) {
    return name + with_count(arguments + failure_argument());
  }
  return code("$($)", name, arguments);
}

std::string Block::compute_scalar_operation(const Scalar& scalar) {
  std::vector<std::string> operands;
  for (const ScalarId operand : scalar.operands) {
    operands.push_back(value(operand));
  }
  const std::string type(scalar_type(scalar.dtype));
  if (const std::string_view symbol = infix_operator(scalar.op); !symbol.empty()) {
    const std::string text = operands[0] + std::string(symbol) + operands[1];
    return scalar.dtype == DType::kBool ? text : "(" + type + ")(" + text + ")";
  }
  switch (scalar.op) {
    case ScalarOp::kCast:
      return scalar.dtype == DType::kBool ? operands[0] + " != 0"
             : is_wrapped(context_.scalar(scalar.operands[0]).dtype, scalar.dtype)
                 ? "(" + type + ")(long long)" + operands[0]
                 : "(" + type + ")" + operands[0];
    case ScalarOp::kWhere: return operands[0] + " ? " + operands[1] + " : " + operands[2];
    case ScalarOp::kNegate: return code("($)-($)", type, operands[0]);
    case ScalarOp::kNot:
      return scalar.dtype == DType::kBool ? "!" + operands[0] : "(" + type + ")~" + operands[0];
    case ScalarOp::kReciprocal: return "1 / " + operands[0];
    case ScalarOp::kFence: return code("fence($)", operands[0]);
    case ScalarOp::kIsNan: return operands[0] + " != " + operands[0];
    case ScalarOp::kSqrt:
      return (scalar.dtype == DType::kFloat64 ? "__builtin_sqrt(" : "__builtin_sqrtf(") +
             operands[0] + ")";
    case ScalarOp::kRsqrt:
      return (scalar.dtype == DType::kFloat64 ? "1 / __builtin_sqrt(" : "1 / __builtin_sqrtf(") +
             operands[0] + ")";
    default: break;
  }
  const std::string name(to_string(scalar.op));
  if (scalar.op == ScalarOp::kCheckIndex) {
    return code("$($, $$)", name, operands[0], operands[1], failure_argument());
  }
  // The rest is there for vectors: one lane of it will do. With AVX-512 GCC 12 gets the lane of a
  // choice wrong if it can compute it beforehand, so it must not know the operands.
  std::string arguments;
  for (const std::string& operand : operands) {
    arguments += (arguments.empty() ? "splat(opaque(" : ", splat(opaque(") + operand + "))";
  }
  return code("$($)[0]", name, arguments);
}

std::string Block::failure_argument() {
  context_.checks_indices = true;
  return ", (int*)" + context_.failure;
}

}  // namespace kiln::codegen
