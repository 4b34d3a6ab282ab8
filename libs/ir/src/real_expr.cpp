#include "kiln/ir/real_expr.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "argument.hpp"
#include "kiln/base/error.hpp"
#include "text.hpp"

namespace kiln::ir {

struct RealExpr::Node {
  Op op = Op::kFloat;
  Expr integer = {};
  std::vector<RealExpr> operands = {};
};

namespace {

using Op = RealExpr::Op;

struct Word {
  std::string_view text;
  Op op;
  std::size_t operands;
};

constexpr std::array kWords = {Word{"float", Op::kFloat, 0},
                               Word{"add", Op::kAdd, 2},
                               Word{"subtract", Op::kSubtract, 2},
                               Word{"multiply", Op::kMultiply, 2},
                               Word{"divide", Op::kDivide, 2},
                               Word{"sqrt", Op::kSqrt, 1},
                               Word{"round_to_float", Op::kRoundToFloat, 1}};

// What `text` calls, the bracket included.
const Word* called_word(std::string_view text) {
  const auto found = std::ranges::find_if(kWords, [&](const Word& word) {
    return text.starts_with(word.text) && text.substr(word.text.size()).starts_with('(');
  });
  return found == kWords.end() ? nullptr : &*found;
}

class RealExprParser {
 public:
  explicit RealExprParser(std::string_view text) : text_(text) {}

  RealExpr parse() {
    RealExpr result = number(0);
    if (position_ != text_.size()) {
      fail("the end");
    }
    return result;
  }

 private:
  static constexpr int kMaximumDepth = 200;

  [[noreturn]] void fail(std::string_view expected) const {
    throw Error(ErrorCode::kInvalidArgument,
                "column " + std::to_string(position_ + 1) + " of \"" + std::string(text_) +
                    "\": expected " + std::string(expected));
  }

  void skip_spaces() {
    while (position_ < text_.size() && text_[position_] == ' ') {
      ++position_;
    }
  }

  void expect(char wanted) {
    skip_spaces();
    if (position_ == text_.size() || text_[position_] != wanted) {
      fail(std::string("'") + wanted + "'");
    }
    ++position_;
  }

  RealExpr number(int depth) {
    skip_spaces();
    const Word* word = called_word(text_.substr(position_));
    if (word == nullptr) {
      return literal();
    }
    if (depth > kMaximumDepth) {
      fail("fewer nested brackets");
    }
    position_ += word->text.size() + 1;
    if (word->op == Op::kFloat) {
      return RealExpr(integer());
    }
    const RealExpr first = number(depth + 1);
    if (word->operands == 1) {
      expect(')');
      return word->op == Op::kSqrt ? sqrt(first) : round_to_float(first);
    }
    expect(',');
    const RealExpr second = number(depth + 1);
    expect(')');
    switch (word->op) {
      case Op::kAdd: return first + second;
      case Op::kSubtract: return first - second;
      case Op::kMultiply: return first * second;
      default: return first / second;
    }
  }

  // Up to the bracket that closes the one before it, which is left out.
  Expr integer() {
    std::size_t end = position_;
    for (int open = 1; end < text_.size(); ++end) {
      open += text_[end] == '(' ? 1 : text_[end] == ')' ? -1 : 0;
      if (open == 0) {
        break;
      }
    }
    const Expr result = Expr::parse(text_.substr(position_, end - position_));
    position_ = end;
    expect(')');
    return result;
  }

  RealExpr literal() {
    const std::size_t end = std::min(text_.find_first_of(",) ", position_), text_.size());
    double value = 0;
    const auto [stop, error] = std::from_chars(text_.data() + position_, text_.data() + end, value);
    if (error != std::errc() || stop != text_.data() + end) {
      fail("a number");
    }
    position_ = end;
    skip_spaces();
    return value;
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

void print(const RealExpr& real, std::string* out) {
  if (const std::optional<double> constant = real.constant()) {
    append_double(*constant, out);
    return;
  }
  *out += std::ranges::find(kWords, real.op(), &Word::op)->text;
  *out += '(';
  if (real.op() == Op::kFloat) {
    *out += real.integer().to_string();
  }
  const std::span<const RealExpr> operands = real.operands();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    *out += i == 0 ? "" : ", ";
    print(operands[i], out);
  }
  *out += ')';
}

}  // namespace

double apply(RealExpr::Op op, double a, double b) {
  switch (op) {
    case Op::kAdd: return a + b;
    case Op::kSubtract: return a - b;
    case Op::kMultiply: return a * b;
    case Op::kDivide: return a / b;
    case Op::kSqrt: return std::sqrt(a);
    case Op::kRoundToFloat: return static_cast<double>(static_cast<float>(a));
    case Op::kConstant:
    case Op::kFloat: break;
  }
  return a;
}

RealExpr::RealExpr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

RealExpr::RealExpr(const Expr& integer) {
  if (const std::optional<std::int64_t> number = integer.constant()) {
    constant_ = static_cast<double>(*number);
  } else {
    node_ = std::make_shared<Node>(Node{.integer = integer});
  }
}

RealExpr RealExpr::make(Op op, std::vector<RealExpr> operands) {
  if (std::ranges::all_of(operands, [](const RealExpr& operand) { return !operand.node_; })) {
    return apply(op, operands.front().constant_, operands.back().constant_);
  }
  return RealExpr(std::make_shared<Node>(Node{.op = op, .operands = std::move(operands)}));
}

RealExpr operator+(const RealExpr& a, const RealExpr& b) {
  return RealExpr::make(Op::kAdd, {a, b});
}

RealExpr operator-(const RealExpr& a, const RealExpr& b) {
  return RealExpr::make(Op::kSubtract, {a, b});
}

RealExpr operator*(const RealExpr& a, const RealExpr& b) {
  if (b.constant() == 1.0) {
    return a;
  }
  return RealExpr::make(Op::kMultiply, {a, b});
}

RealExpr operator/(const RealExpr& a, const RealExpr& b) {
  if (b.constant() == 1.0) {
    return a;
  }
  return RealExpr::make(Op::kDivide, {a, b});
}

RealExpr sqrt(const RealExpr& a) {
  return RealExpr::make(Op::kSqrt, {a});
}

RealExpr round_to_float(const RealExpr& a) {
  return RealExpr::make(Op::kRoundToFloat, {a});
}

bool operator==(const RealExpr& a, const RealExpr& b) {
  if (a.op() != b.op()) {
    return false;
  }
  if (!a.node_) {
    return std::bit_cast<std::uint64_t>(a.constant_) == std::bit_cast<std::uint64_t>(b.constant_);
  }
  return a.node_ == b.node_ ||
         (a.integer() == b.integer() && std::ranges::equal(a.operands(), b.operands()));
}

RealExpr RealExpr::parse(std::string_view text) {
  return RealExprParser(text).parse();
}

bool RealExpr::is_text(std::string_view text) {
  return called_word(text) != nullptr;
}

RealExpr::Op RealExpr::op() const {
  return node_ ? node_->op : Op::kConstant;
}

std::optional<double> RealExpr::constant() const {
  return node_ ? std::nullopt : std::optional(constant_);
}

const Expr& RealExpr::integer() const {
  static const Expr kZero = 0;
  return node_ ? node_->integer : kZero;
}

std::span<const RealExpr> RealExpr::operands() const {
  return node_ ? std::span<const RealExpr>(node_->operands) : std::span<const RealExpr>();
}

double RealExpr::evaluate(const Bindings& bindings) const {
  switch (op()) {
    case Op::kConstant: return constant_;
    case Op::kFloat: return static_cast<double>(integer().evaluate(bindings));
    default:
      return apply(
          op(), operands().front().evaluate(bindings), operands().back().evaluate(bindings));
  }
}

RealExpr RealExpr::substitute(const std::function<Expr(const std::string&)>& replacement) const {
  if (!node_) {
    return *this;
  }
  if (node_->op == Op::kFloat) {
    return RealExpr(node_->integer.substitute(replacement));
  }
  std::vector<RealExpr> replaced;
  for (const RealExpr& operand : node_->operands) {
    replaced.push_back(operand.substitute(replacement));
  }
  return make(node_->op, std::move(replaced));
}

std::vector<std::string> RealExpr::symbols() const {
  std::vector<std::string> names;
  for_each_integer_of(*this, [&](const Expr& integer) {
    const std::vector<std::string> own = integer.symbols();
    names.insert(names.end(), own.begin(), own.end());
  });
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

std::string RealExpr::to_string() const {
  std::string text;
  print(*this, &text);
  return text;
}

std::size_t RealExpr::hash() const {
  std::size_t seed =
      combine_hash(static_cast<std::size_t>(op()),
                   node_ ? node_->integer.hash() : std::bit_cast<std::uint64_t>(constant_));
  for (const RealExpr& operand : operands()) {
    seed = combine_hash(seed, operand.hash());
  }
  return seed;
}

}  // namespace kiln::ir
