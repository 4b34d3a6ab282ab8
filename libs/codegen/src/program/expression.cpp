#include "program/expression.hpp"

#include <cctype>
#include <string_view>

#include "kiln/base/error.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen {
namespace {

// Translates the text form of an expression. Precedence, loosest first: sums; products; `//`, which
// `ir` writes with operands that are atoms or in parentheses.
class Translator {
 public:
  Translator(std::string_view text, const std::string& prefix) : text_(text), prefix_(prefix) {}

  std::string translate() {
    std::string result = sum();
    ensure(at_ == text_.size(), "a symbolic expression has text behind its end");
    return result;
  }

 private:
  bool take(std::string_view token) {
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
    }
    if (text_.substr(at_, token.size()) != token) {
      return false;
    }
    at_ += token.size();
    return true;
  }

  std::string sum() {
    std::string result = take("-") ? "-" + product() : product();
    for (;;) {
      if (take("+")) {
        result += " + " + product();
      } else if (take("-")) {
        result += " - " + product();
      } else {
        return result;
      }
    }
  }

  std::string product() {
    std::string result = division();
    while (take("*")) {
      result += " * " + division();
    }
    return result;
  }

  std::string division() {
    std::string result = atom();
    while (take("//")) {
      result = "floor_div(" + result + ", " + atom() + ")";
    }
    return result;
  }

  std::string atom() {
    if (take("(")) {
      const std::string inner = sum();
      ensure(take(")"), "a symbolic expression lacks a parenthesis");
      return "(" + inner + ")";
    }
    take("");  // Skips blanks.
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) {
      ++at_;
    }
    const std::string word(text_.substr(begin, at_ - begin));
    ensure(!word.empty(), "a symbolic expression has an unknown character");
    if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      return word + "LL";
    }
    return take("(") ? call(word) : prefix_ + word;
  }

  std::string call(const std::string& name) {
    const std::string function = name == "Mod"   ? "modulo"
                                 : name == "Min" ? "minimum"
                                 : name == "Max" ? "maximum"
                                                 : "";
    ensure(!function.empty(), "a symbolic expression calls an unknown function");
    std::string result = sum();
    while (take(",")) {
      result = function + "(" + result + ", " + sum() + ")";
    }
    ensure(take(")"), "a symbolic expression lacks a parenthesis");
    return result;
  }

  std::string_view text_;
  const std::string& prefix_;
  std::size_t at_ = 0;
};

}  // namespace

const char* const kExpressionFunctions = R"(
static inline Int64 floor_div(Int64 a, Int64 b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline Int64 modulo(Int64 a, Int64 b) {
  return a - floor_div(a, b) * b;
}
static inline Int64 minimum(Int64 a, Int64 b) {
  return a < b ? a : b;
}
static inline Int64 maximum(Int64 a, Int64 b) {
  return a > b ? a : b;
}
)";

std::string to_source(const ir::Expr& expr, const std::string& prefix) {
  const std::string text = expr.to_string();
  return Translator(text, prefix).translate();
}

std::string to_source(const ir::RealExpr& real, const std::string& prefix) {
  using Op = ir::RealExpr::Op;
  const auto operand = [&](std::size_t i) { return to_source(real.operands()[i], prefix); };
  const auto infix = [&](const char* symbol) {
    return "(" + operand(0) + symbol + operand(1) + ")";
  };
  switch (real.op()) {
    case Op::kConstant: return double_literal(*real.constant());
    case Op::kFloat: return "(double)(" + to_source(real.integer(), prefix) + ")";
    case Op::kAdd: return infix(" + ");
    case Op::kSubtract: return infix(" - ");
    case Op::kMultiply: return infix(" * ");
    case Op::kDivide: return infix(" / ");
    case Op::kSqrt: return "__builtin_sqrt(" + operand(0) + ")";
    case Op::kRoundToFloat: return "(double)(float)" + operand(0);
  }
  throw Error(ErrorCode::kInternal, "a number that depends on sizes has an unknown operation");
}

}  // namespace kiln::codegen
