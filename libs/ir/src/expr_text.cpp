// Expressions as text: what to_string writes, and sympy's spelling of the same.

#include <charconv>
#include <cstdlib>
#include <system_error>

#include "expr_node.hpp"
#include "kiln/base/error.hpp"

namespace kiln::ir {

void Expr::Node::print_operand(const Expr& expr, std::string* out) {
  const Atom* atom = constant_of(expr) == 0 ? single_atom(expr) : nullptr;
  const bool simple = (atom != nullptr && atom->kind != Kind::kFloorDiv) ||
                      (expr.is_constant() && constant_of(expr) >= 0);
  *out += simple ? "" : "(";
  print(expr, out);
  *out += simple ? "" : ")";
}

void Expr::Node::print(const Atom& atom, std::string* out) {
  switch (atom.kind) {
    case Kind::kSymbol: *out += atom.name; return;
    case Kind::kFloorDiv:
      print_operand(atom.operands[0], out);
      *out += "//";
      print_operand(atom.operands[1], out);
      return;
    case Kind::kMod: *out += "Mod("; break;
    case Kind::kMin: *out += "Min("; break;
    case Kind::kMax: *out += "Max("; break;
  }
  for (std::size_t i = 0; i < atom.operands.size(); ++i) {
    *out += i == 0 ? "" : ", ";
    print(atom.operands[i], out);
  }
  *out += ')';
}

void Expr::Node::print(const Expr& expr, std::string* out) {
  bool first = true;
  for (const Term& term : terms_of(expr)) {
    const bool negative = term.coefficient < 0;
    *out += first ? (negative ? "-" : "") : (negative ? " - " : " + ");
    first = false;
    // Unsigned: the lowest integer has no positive counterpart.
    const std::uint64_t magnitude = negative ? 0 - static_cast<std::uint64_t>(term.coefficient)
                                             : static_cast<std::uint64_t>(term.coefficient);
    if (magnitude != 1) {
      *out += std::to_string(magnitude) + '*';
    }
    for (std::size_t i = 0; i < term.atoms.size(); ++i) {
      *out += i == 0 ? "" : "*";
      const bool division = term.atoms[i]->kind == Kind::kFloorDiv;
      *out += division ? "(" : "";
      print(*term.atoms[i], out);
      *out += division ? ")" : "";
    }
  }
  const std::int64_t constant = constant_of(expr);
  if (first) {
    *out += std::to_string(constant);
  } else if (constant != 0) {
    const std::string text = std::to_string(constant);
    *out += constant < 0 ? " - " + text.substr(1) : " + " + text;
  }
}

std::string Expr::to_string() const {
  std::string text;
  Node::print(*this, &text);
  return text;
}

namespace {

/// Recursive descent over Python's precedence: sum, product, sign, power, primary.
class ExprParser {
 public:
  explicit ExprParser(std::string_view text) : text_(text) {}

  Expr parse() {
    Expr result = parse_sum();
    if (peek() != '\0') {
      fail("an operator or the end");
    }
    return result;
  }

 private:
  static constexpr int kMaximumDepth =
      200;  // Nested deeper it is no size, and the stack is finite.

  [[noreturn]] void fail(std::string_view expected) const {
    throw Error(ErrorCode::kInvalidArgument,
                "column " + std::to_string(position_ + 1) + " of \"" + std::string(text_) +
                    "\": expected " + std::string(expected));
  }

  char peek() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t')) {
      ++position_;
    }
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  bool accept(std::string_view token) {
    (void)peek();
    if (text_.substr(position_, token.size()) != token) {
      return false;
    }
    position_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) {
      fail("'" + std::string(token) + "'");
    }
  }

  Expr parse_sum() {
    if (++depth_ > kMaximumDepth) {
      fail("fewer nested brackets");
    }
    Expr result = parse_product();
    while (true) {
      if (accept("+")) {
        result = result + parse_product();
      } else if (accept("-")) {
        result = result - parse_product();
      } else {
        --depth_;
        return result;
      }
    }
  }

  Expr parse_product() {
    Expr result = parse_sign();
    while (true) {
      if (accept("//")) {
        result = floor_div(result, parse_sign());
      } else if (accept("*")) {
        result = result * parse_sign();
      } else if (accept("%")) {
        result = mod(result, parse_sign());
      } else {
        return result;
      }
    }
  }

  Expr parse_sign() {
    bool negative = false;
    while (peek() == '-' || peek() == '+') {
      negative ^= text_[position_++] == '-';
    }
    return parse_power(negative);
  }

  Expr parse_power(bool negative) {
    const bool literal = peek() >= '0' && peek() <= '9';
    // The sign belongs to a literal, so that the lowest integer can be written.
    Expr base = literal ? parse_integer(negative) : parse_primary();
    if (!accept("**")) {
      return negative && !literal ? base * Expr(-1) : base;
    }
    const std::optional<std::int64_t> exponent = parse_primary().constant();
    if (!exponent || *exponent < 0 || *exponent > 64) {
      fail("an exponent between 0 and 64 before this");
    }
    if (negative && literal) {
      base = base * Expr(-1);
    }
    Expr result(1);
    for (std::int64_t i = 0; i < *exponent; ++i) {
      result = result * base;
    }
    return negative ? result * Expr(-1) : result;
  }

  Expr parse_integer(bool negative) {
    const std::size_t begin = position_;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
      ++position_;
    }
    const std::string digits =
        (negative ? "-" : "") + std::string(text_.substr(begin, position_ - begin));
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc()) {
      position_ = begin;
      fail("an integer of at most 64 bits");
    }
    return Expr(value);
  }

  Expr parse_primary() {
    const char next = peek();
    if (next >= '0' && next <= '9') {
      return parse_integer(false);
    }
    if (accept("(")) {
      Expr result = parse_sum();
      expect(")");
      return result;
    }
    const std::size_t begin = position_;
    const auto is_letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    if (!is_letter(next)) {
      fail("an integer, a symbol or '('");
    }
    while (position_ < text_.size() &&
           (is_letter(text_[position_]) || (text_[position_] >= '0' && text_[position_] <= '9'))) {
      ++position_;
    }
    const std::string_view name = text_.substr(begin, position_ - begin);
    if (peek() == '(') {
      return parse_call(name, begin);
    }
    return Expr::symbol(std::string(name));
  }

  Expr parse_call(std::string_view name, std::size_t begin) {
    expect("(");
    std::vector<Expr> operands = {parse_sum()};
    while (accept(",")) {
      operands.push_back(parse_sum());
    }
    expect(")");
    Expr (*function)(const Expr&, const Expr&) = nullptr;
    bool variadic = false;
    if (name == "Max" || name == "max") {
      function = [](const Expr& a, const Expr& b) { return max(a, b); };
      variadic = true;
    } else if (name == "Min" || name == "min") {
      function = [](const Expr& a, const Expr& b) { return min(a, b); };
      variadic = true;
    } else if (name == "Mod" || name == "PythonMod") {
      function = [](const Expr& a, const Expr& b) { return mod(a, b); };
    } else if (name == "FloorDiv" || name == "CleanDiv") {
      function = [](const Expr& a, const Expr& b) { return floor_div(a, b); };
    } else if (name == "CeilDiv") {
      function = [](const Expr& a, const Expr& b) { return ceil_div(a, b); };
    } else {
      position_ = begin;
      fail("one of Max, Min, Mod, FloorDiv, CleanDiv, CeilDiv");
    }
    if (!variadic && operands.size() != 2) {
      position_ = begin;
      fail("two arguments for " + std::string(name));
    }
    Expr result = operands[0];
    for (std::size_t i = 1; i < operands.size(); ++i) {
      result = function(result, operands[i]);
    }
    return result;
  }

  std::string_view text_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

Expr Expr::parse(std::string_view text) {
  return ExprParser(text).parse();
}

}  // namespace kiln::ir
