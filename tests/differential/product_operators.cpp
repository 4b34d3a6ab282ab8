// Lines of the sweep for the matrix products that codegen takes for itself: those with a vector.

#include "operators.hpp"

namespace kiln::differential {
namespace {

struct Factors {
  at::Tensor left;
  at::Tensor right;
};

// A row by a matrix, a matrix by a column, a column by a row; plain, transposed or strided.
Factors factors(Draw& d) {
  const auto matrix = [&d](std::int64_t rows, std::int64_t columns) {
    switch (d.below(3)) {
      case 0: return d.of({columns, rows}, d.dtype(), Values::kFinite).t();
      case 1: return d.of({rows, 2 * columns}, d.dtype(), Values::kFinite).slice(1, 0, {}, 2);
      default: return d.of({rows, columns}, d.dtype(), Values::kFinite);
    }
  };
  constexpr std::int64_t kLong = 67;  // with a tail, whatever the vectors are
  constexpr std::int64_t kShort = 21;
  switch (d.below(3)) {
    case 0: return {matrix(1, kLong), matrix(kLong, kShort)};
    case 1: return {matrix(kShort, kLong), matrix(kLong, 1)};
    default: return {matrix(kShort, 1), matrix(1, kLong)};
  }
}

}  // namespace

std::vector<Line> product_lines() {
  return {
      {"aten.mm.default",
       Types::kFloats,
       Closeness::kSum,
       [](Draw& d) {
         const Factors f = factors(d);
         return Tensors{at::mm(f.left, f.right)};
       }},
      {"aten.addmm.default",
       Types::kFloats,
       Closeness::kSum,
       [](Draw& d) {
         const Factors f = factors(d);
         const at::Tensor added =
             d.coin() ? d.of({f.right.size(1)}, d.dtype(), Values::kFinite)
                      : d.of({f.left.size(0), f.right.size(1)}, d.dtype(), Values::kFinite);
         const double alpha = d.coin() ? 1 : -2;
         return Tensors{at::addmm(added, f.left, f.right, 1, alpha),
                        at::addmm(added, f.left, f.right, 0.5, alpha),
                        at::addmm(added, f.left, f.right, 0, alpha)};
       }},
      // A few results that lie one behind the other, weighed; and ones that libtorch weighs.
      {"aten.bmm.default",
       Types::kFloats,
       Closeness::kSum,
       [](Draw& d) {
         const std::int64_t depth = d.coin() ? 5 : 17;
         const at::Tensor left = d.of({depth, 3, 21}, d.dtype(), Values::kFinite);
         const at::Tensor right = d.of({3, depth, 1}, d.dtype(), Values::kFinite);
         return Tensors{at::bmm(left.permute({1, 2, 0}), right)};
       }},
  };
}

}  // namespace kiln::differential
