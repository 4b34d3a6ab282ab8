// Expressions and indices as text: the part that loop programs and loop nests have in common.

#pragma once

#include <string>
#include <vector>

#include "loop/scalar.hpp"

namespace kiln::codegen {

/// Prints "add(t0[i0, 2*i1 + 1], 1)". Derived classes print symbolic numbers, variables and memory.
class ScalarPrinter {
 public:
  ScalarPrinter(const ScalarPrinter&) = delete;
  ScalarPrinter& operator=(const ScalarPrinter&) = delete;
  virtual ~ScalarPrinter() = default;

  [[nodiscard]] virtual std::string scalar(ScalarId id) const;
  [[nodiscard]] std::string index(const Index& index) const;

 protected:
  explicit ScalarPrinter(const ScalarPool& pool) : pool_(pool) {}

  [[nodiscard]] virtual std::string number(const ir::Expr& number) const = 0;
  [[nodiscard]] virtual std::string variable(int variable) const = 0;
  [[nodiscard]] virtual std::string constant(const Scalar& scalar) const = 0;
  /// An element that is read or loaded, or the result of a nest's reduction.
  [[nodiscard]] virtual std::string memory(const Scalar& scalar) const = 0;

  [[nodiscard]] std::string numbers(const std::vector<ir::Expr>& values) const;
  [[nodiscard]] std::string indices(const std::vector<Index>& list) const;
  /// "0.5": the fewest digits that identify the number.
  [[nodiscard]] static std::string digits_of(const Scalar& constant);

  const ScalarPool& pool_;

 private:
  [[nodiscard]] std::string atom(const Atom& atom) const;
};

}  // namespace kiln::codegen
