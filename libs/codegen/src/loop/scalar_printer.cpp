#include "loop/scalar_printer.hpp"

#include <array>
#include <charconv>

namespace kiln::codegen {

std::string ScalarPrinter::numbers(const std::vector<ir::Expr>& values) const {
  std::string text;
  for (const ir::Expr& value : values) {
    text += (text.empty() ? "" : ", ") + number(value);
  }
  return text;
}

std::string ScalarPrinter::indices(const std::vector<Index>& list) const {
  std::string text;
  for (const Index& each : list) {
    text += (text.empty() ? "" : ", ") + index(each);
  }
  return text;
}

std::string ScalarPrinter::index(const Index& index) const {
  std::string text;
  for (const Index::Term& term : index.terms()) {
    const std::string factor = term.factor == ir::Expr(1) ? "" : number(term.factor) + "*";
    text += (text.empty() ? "" : " + ") + factor + atom(*term.atom);
  }
  const bool is_zero = index.constant() == ir::Expr(0);
  return text.empty() || !is_zero ? text + (text.empty() ? "" : " + ") + number(index.constant())
                                  : text;
}

std::string ScalarPrinter::atom(const Atom& atom) const {
  switch (atom.kind) {
    case Atom::Kind::kVariable: return variable(atom.variable);
    case Atom::Kind::kComputed: return "<" + scalar(atom.scalar) + ">";
    case Atom::Kind::kQuotient: return "(" + index(atom.operand) + ") / " + number(atom.divisor);
    case Atom::Kind::kRemainder: return "(" + index(atom.operand) + ") % " + number(atom.divisor);
  }
  return "";
}

std::string ScalarPrinter::scalar(ScalarId id) const {
  const Scalar& scalar = pool_[id];
  switch (scalar.op) {
    case ScalarOp::kConstant: return constant(scalar);
    case ScalarOp::kIndex: return "index(" + index(scalar.indices[0]) + ")";
    case ScalarOp::kRead:
    case ScalarOp::kLoad:
    case ScalarOp::kReduced: return memory(scalar);
    default: break;
  }
  std::string arguments;
  for (const ScalarId operand : scalar.operands) {
    arguments += (arguments.empty() ? "" : ", ") + this->scalar(operand);
  }
  const std::string type =
      scalar.op == ScalarOp::kCast ? "." + std::string(ir::to_string(scalar.dtype)) : "";
  return std::string(to_string(scalar.op)) + type + "(" + arguments + ")";
}

std::string ScalarPrinter::digits_of(const Scalar& constant) {
  if (!ir::is_floating_point(constant.dtype)) {
    return std::to_string(constant.integer);
  }
  std::array<char, 32> text{};
  char* const end = std::to_chars(text.data(), text.data() + text.size(), constant.real).ptr;
  return {text.data(), end};
}

}  // namespace kiln::codegen
