#include "expr_parts.hpp"

#include <cctype>
#include <string_view>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::exporter {
namespace {

using Kind = ExprPart::Kind;

// Reads the canonical text of an expression: sums, products, then `//`.
class PartReader {
 public:
  explicit PartReader(std::string_view text) : text_(text) {}

  ExprPart read() {
    ExprPart result = sum();
    ensure(at_ == text_.size(), "an expression has text behind its end");
    return result;
  }

 private:
  bool take(std::string_view token) {
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
    }
    const bool found = text_.substr(at_, token.size()) == token;
    at_ += found ? token.size() : 0;
    return found;
  }

  static ExprPart joined(Kind kind, std::vector<ExprPart> operands) {
    return operands.size() == 1 ? std::move(operands.front())
                                : ExprPart{.kind = kind, .operands = std::move(operands)};
  }

  static ExprPart negated(ExprPart part) {
    if (part.kind == Kind::kConstant) {
      part.constant = -part.constant;
      return part;
    }
    return joined(Kind::kMultiply, {ExprPart{.constant = -1}, std::move(part)});
  }

  ExprPart sum() {
    std::vector<ExprPart> terms;
    terms.push_back(take("-") ? negated(product()) : product());
    for (;;) {
      if (take("+")) {
        terms.push_back(product());
      } else if (take("-")) {
        terms.push_back(negated(product()));
      } else {
        return joined(Kind::kAdd, std::move(terms));
      }
    }
  }

  ExprPart product() {
    std::vector<ExprPart> factors = {quotient()};
    while (take("*")) {
      factors.push_back(quotient());
    }
    return joined(Kind::kMultiply, std::move(factors));
  }

  ExprPart quotient() {
    ExprPart result = atom();
    while (take("//")) {
      result = joined(Kind::kFloorDiv, {std::move(result), atom()});
    }
    return result;
  }

  ExprPart atom() {
    if (take("(")) {
      ExprPart inner = sum();
      ensure(take(")"), "an expression lacks a bracket");
      return inner;
    }
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) {
      ++at_;
    }
    const std::string word(text_.substr(begin, at_ - begin));
    ensure(!word.empty(), "an expression has an unknown character");
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0) {
      return {.constant = std::stoll(word)};
    }
    if (!take("(")) {
      return {.kind = Kind::kSymbol, .symbol = word};
    }
    std::vector<ExprPart> operands = {sum()};
    while (take(",")) {
      operands.push_back(sum());
    }
    ensure(take(")"), "an expression lacks a bracket");
    const Kind kind = word == "Mod" ? Kind::kMod : word == "Min" ? Kind::kMin : Kind::kMax;
    return joined(kind, std::move(operands));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

ExprPart parts_of(const ir::Expr& expr) {
  const std::string text = expr.to_string();
  return PartReader(text).read();
}

ir::Expr expr_of(const ExprPart& part) {
  if (part.operands.empty()) {
    return part.kind == Kind::kSymbol ? ir::Expr::symbol(part.symbol) : ir::Expr(part.constant);
  }
  ir::Expr result = expr_of(part.operands.front());
  for (std::size_t i = 1; i < part.operands.size(); ++i) {
    const ir::Expr next = expr_of(part.operands[i]);
    switch (part.kind) {
      case Kind::kAdd: result = result + next; break;
      case Kind::kMultiply: result = result * next; break;
      case Kind::kFloorDiv: result = floor_div(result, next); break;
      case Kind::kMod: result = mod(result, next); break;
      case Kind::kMin: result = min(result, next); break;
      default: result = max(result, next);
    }
  }
  return result;
}

}  // namespace kiln::exporter
