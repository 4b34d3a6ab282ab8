// Expressions and indices as text: what the texts of loop programs and of loop nests share.

#pragma once

#include <string>
#include <vector>

#include "loop/scalar.hpp"

namespace kiln::codegen {

/// Writes "add(t0[i0, 2*i1 + 1], 1)". Either kind of text has its own words for numbers with
/// symbols in them, for variables and for memory.
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
  /// "0.5", with the digits that tell it from any other number.
  [[nodiscard]] static std::string digits_of(const Scalar& constant);

  const ScalarPool& pool_;

 private:
  [[nodiscard]] std::string atom(const Atom& atom) const;
};

}  // namespace kiln::codegen
