// Variances over dims, as exact as those that eager computes in double.

#include <algorithm>
#include <limits>

#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

namespace {

// A mean, and the sum of the squares of the differences from it.
struct Moments {
  Formula mean;
  Formula squares;
};

// What was rounded in a `mean` of `count` numbers is taken out of it and of the `squares` of the
// differences from it. These add up to `total` instead of 0, and their squares to too much, which
// may be most of it where the mean is large and the variance small.
Moments corrected(Formula mean, Formula squares, Formula total, Formula count) {
  const Formula excess = total * total / count;
  const Formula exact = binary(ScalarOp::kMaximum, squares - excess, squares.number(0));
  // Not of numbers so large that their sum has overflowed.
  const Formula finite = excess < excess.number(std::numeric_limits<double>::infinity());
  return {where(finite, mean + total / count, mean), where(finite, exact, squares)};
}

// var.correction(self, dims, correction, keep), with the mean as a second result if there is one.
Lower variance(bool with_mean) {
  return [with_mean](Lowering& l) {
    const TensorId source = l.tensor(0);
    const std::vector<Expr> sizes = l.sizes(source);
    const auto dims = l.dims(1, sizes.size());
    const Expr number = count(sizes, dims);
    const DType type = compute_type(l.meta(0).dtype);
    if (!l.is_positive(number) || !ir::is_floating_point(type)) {
      return false;
    }
    const Formula n = l.extent(number, type);
    const TensorId sum = l.reduce(
        Reduction::kSum, sizes, dims, type, [&](Indices i) { return l.broadcast(source, i); });
    const auto mean = [&](std::vector<Index> row) { return l.read(sum, std::move(row)) / n; };
    const auto difference = [&](Indices i) {
      return l.broadcast(source, i) - mean(kept_indices(i, dims));
    };
    const TensorId squares = l.reduce(Reduction::kSum, sizes, dims, type, [&](Indices i) {
      return difference(i) * difference(i);
    });
    const TensorId total = l.reduce(Reduction::kSum, sizes, dims, type, difference);
    const double correction = l.real(2, 1);
    const auto known = number.constant();
    const Formula divisor =
        known ? l.constant(std::max(0.0, static_cast<double>(*known) - correction), type)
              : binary(ScalarOp::kMaximum, n - correction, l.constant(0, type));
    const bool keep = l.flag(3);
    const auto moments = [&](Indices i) {
      const std::vector<Index> row =
          keep ? kept_indices(i, dims) : std::vector<Index>(i.begin(), i.end());
      return corrected(mean(row), l.read(squares, row), l.read(total, row), n);
    };
    l.define(0, [&](Indices i) { return moments(i).squares / divisor; });
    if (with_mean) {
      l.define(1, [&](Indices i) { return moments(i).mean; });
    }
    return true;
  };
}

}  // namespace

void add_variance_lowerings(Lowerings& table) {
  table["aten.var.correction"] = variance(false);
  table["aten.var_mean.correction"] = variance(true);
}

}  // namespace kiln::codegen
