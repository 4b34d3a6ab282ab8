// What a scalar expression means, at one point of its loops: slow, and the reference for kernels.

#pragma once

#include <cstdint>
#include <vector>

#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// One element: `real` if its type is a floating one, else `integer`.
struct Element {
  double real = 0;
  std::int64_t integer = 0;
};

/// The values of the variables, by their numbers.
using Point = std::vector<std::int64_t>;

/// The value as its type holds it: floats lose digits, integers wrap round.
[[nodiscard]] Element fit(ir::DType dtype, Element element);

/// What leaves a reduction as it is.
[[nodiscard]] Element neutral(Reduction reduction);
[[nodiscard]] Element combine(Reduction reduction, Element a, Element b);

/// Sizes that are all constant, as numbers.
[[nodiscard]] std::vector<std::int64_t> constant_sizes(const std::vector<ir::Expr>& sizes);

/// Computes expressions. What they read is up to whoever derives from it.
class ScalarEvaluator {
 public:
  explicit ScalarEvaluator(const ScalarPool& pool) : pool_(pool) {}
  ScalarEvaluator(const ScalarEvaluator&) = delete;
  ScalarEvaluator& operator=(const ScalarEvaluator&) = delete;
  virtual ~ScalarEvaluator() = default;

 protected:
  [[nodiscard]] Element scalar(ScalarId id, const Point& point);
  [[nodiscard]] std::int64_t index(const Index& index, const Point& point);

 private:
  /// The value of a `kRead`, `kLoad` or `kReduced`.
  [[nodiscard]] virtual Element leaf(const Scalar& scalar, const Point& point) = 0;
  [[nodiscard]] Element operation(const Scalar& scalar, const Point& point);

  const ScalarPool& pool_;
};

}  // namespace kiln::codegen
