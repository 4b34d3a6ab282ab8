// The parts of a statement in the text form: types, and what operators are given.

#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "kiln/ir/graph.hpp"
#include "scanner.hpp"

namespace kiln::ir {

/// Reads types and arguments. What does not belong there is an error of the scanner.
class TermParser {
 public:
  /// `value` reads a value's name, or none.
  TermParser(Scanner& scanner, std::function<ValueId()> value)
      : scanner_(scanner), value_(std::move(value)) {}

  /// "f32[8, 16]" or "int(s0)".
  ValueMeta type();
  /// A value, a string, a number, a flag, a list …
  Argument argument();

 private:
  Expr expression();
  Expr expression_of(std::string_view text, std::size_t begin);
  Argument real_expression_of(std::string_view text, std::size_t begin);
  std::vector<Expr> expression_list(char close);
  Argument scalar(std::string_view text, std::size_t begin);
  Argument list();
  Argument join(std::vector<Argument> items, std::size_t begin);

  Scanner& scanner_;
  std::function<ValueId()> value_;
};

}  // namespace kiln::ir
