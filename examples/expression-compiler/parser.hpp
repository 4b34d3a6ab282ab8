// Arithmetic over named variables, as C source.

#pragma once

#include <string>
#include <vector>

/// An expression whose variables are known by the order in which they occur: "a*a + b" and
/// "x*x + y" are the same program.
struct Expression {
  std::string source;                  ///< C, with v[0], v[1], … for the variables.
  std::vector<std::string> variables;  ///< Their names, in that order.
};

/// Reads numbers, names, + - * / ( ) and sin, cos, exp, sqrt. Throws std::invalid_argument.
Expression parse(const std::string& text);
