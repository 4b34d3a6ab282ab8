#include "parser.hpp"

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace {

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  Expression run() {
    expression_.source = sum();
    if (peek() != '\0') {
      fail("the end");
    }
    return std::move(expression_);
  }

 private:
  std::string sum() {
    std::string left = product();
    while (peek() == '+' || peek() == '-') {
      const char operation = take();
      left = "(" + left + operation + product() + ")";
    }
    return left;
  }

  std::string product() {
    std::string left = factor();
    while (peek() == '*' || peek() == '/') {
      const char operation = take();
      left = "(" + left + operation + factor() + ")";
    }
    return left;
  }

  std::string factor() {
    if (peek() == '-') {
      take();
      return "(-" + factor() + ")";
    }
    if (peek() == '(') {
      return parenthesized();
    }
    if (std::isdigit(static_cast<unsigned char>(peek()))) {
      // As a double, or else 1/2 would be 0.
      return "(double)" + word([](unsigned char c) { return std::isdigit(c) || c == '.'; });
    }
    if (std::isalpha(static_cast<unsigned char>(peek()))) {
      const std::string name = word([](unsigned char c) { return std::isalnum(c) || c == '_'; });
      return peek() == '(' ? call(name) : variable(name);
    }
    fail("a number, a name or a parenthesis");
  }

  std::string parenthesized() {
    take();
    std::string inside = sum();
    if (peek() != ')') {
      fail("a closing parenthesis");
    }
    take();
    return inside;
  }

  std::string call(const std::string& name) {
    const std::vector<std::string> known = {"sin", "cos", "exp", "sqrt"};
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw std::invalid_argument("there is no function '" + name + "'");
    }
    return name + "(" + parenthesized() + ")";
  }

  std::string variable(const std::string& name) {
    auto& names = expression_.variables;
    const auto found = std::find(names.begin(), names.end(), name);
    const std::size_t index = static_cast<std::size_t>(found - names.begin());
    if (found == names.end()) {
      names.push_back(name);
    }
    return "v[" + std::to_string(index) + "]";
  }

  template <class Belongs>
  std::string word(const Belongs& belongs) {
    const std::size_t start = position_;
    while (position_ < text_.size() && belongs(static_cast<unsigned char>(text_[position_]))) {
      ++position_;
    }
    return text_.substr(start, position_ - start);
  }

  char peek() {
    while (position_ < text_.size() && text_[position_] == ' ') {
      ++position_;
    }
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  char take() {
    const char next = peek();
    ++position_;
    return next;
  }

  [[noreturn]] void fail(const std::string& expected) const {
    throw std::invalid_argument("expected " + expected + " at position " +
                                std::to_string(position_) + " of '" + text_ + "'");
  }

  const std::string& text_;
  std::size_t position_ = 0;
  Expression expression_;
};

}  // namespace

Expression parse(const std::string& text) {
  return Parser(text).run();
}
