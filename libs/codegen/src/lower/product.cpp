// Matrix products that move more memory than they multiply: loops of ours, which fuse with what
// comes before and after, where a library call would cost more than the work. All others are
// libtorch's.

#include <optional>

#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

namespace {

// Shorter sums do not fill enough vectors.
constexpr std::int64_t kMinSumLength = 32;

// left[m, k] * right[k, n] at an index of the result.
struct Product {
  TensorId left;
  TensorId right;
  DType type;  // what is added in

  [[nodiscard]] Formula term(const Lowering& l,
                             const Index& m,
                             const Index& k,
                             const Index& n) const {
    return l.read(left, {m, k}).to(type) * l.read(right, {k, n}).to(type);
  }
};

// Defines result 0 as `finish(sum over k of left * right, indices)`; false if it is libtorch's.
bool define_product(Lowering& l,
                    const Product& product,
                    const std::function<Formula(Formula, Indices)>& finish) {
  const std::vector<Expr>& left = l.sizes(product.left);
  const std::vector<Expr>& right = l.sizes(product.right);
  if (!ir::is_floating_point(l.meta(0).dtype)) {
    return false;
  }
  // An outer product sums nothing.
  if (left[1] == Expr(1)) {
    l.define(0, [&](Indices i) { return finish(product.term(l, i[0], Index(0), i[1]), i); });
    return true;
  }
  const bool is_row = left[0] == Expr(1);
  if ((!is_row && !(right[1] == Expr(1))) || !l.always_at_least(left[1], kMinSumLength)) {
    return false;
  }
  const std::vector<Expr> domain = {is_row ? right[1] : left[0], left[1]};
  const std::vector<std::size_t> summed = {1};
  const TensorId sums = l.reduce(Reduction::kSum, domain, summed, product.type, [&](Indices i) {
    return is_row ? product.term(l, Index(0), i[1], i[0]) : product.term(l, i[0], i[1], Index(0));
  });
  l.rereads(sums, is_row ? product.left : product.right);
  l.define(0, [&](Indices i) { return finish(l.read(sums, {is_row ? i[1] : i[0]}), i); });
  return true;
}

Product product_of(const Lowering& l, std::size_t left, std::size_t right) {
  return {l.tensor(left), l.tensor(right), compute_type(l.meta(0).dtype)};
}

// mm(self, mat2)
bool lower_mm(Lowering& l) {
  return define_product(l, product_of(l, 0, 1), [](Formula sum, Indices) { return sum; });
}

// addmm(self, mat1, mat2, beta, alpha)
bool lower_addmm(Lowering& l) {
  const Product product = product_of(l, 1, 2);
  const double beta = l.real(3, 1);
  const double alpha = l.real(4, 1);
  return define_product(l, product, [&](Formula sum, Indices i) {
    const Formula scaled = alpha == 1 ? sum : sum * alpha;
    if (beta == 0) {
      return scaled;  // self may be anything, NaN included
    }
    const Formula added = l.operand(0, i, product.type);
    return scaled + (beta == 1 ? added : added * beta);
  });
}

// bmm(self, mat2) by matrices of one column, as in a weighted sum of a few results: unrolled over a
// short k, along the contiguous dim of the lhs.
bool lower_bmm(Lowering& l) {
  constexpr std::int64_t kMaxUnrolledDepth = 16;
  const TensorId left = l.tensor(0);
  const TensorId right = l.tensor(1);
  const auto& given = l.graph().tensor(std::get<ir::ValueId>(l.node().arguments.at(0)));
  const std::optional<std::int64_t> depth = l.sizes(left)[2].constant();
  if (!(l.sizes(right)[2] == Expr(1)) || !depth || *depth < 1 || *depth > kMaxUnrolledDepth ||
      !(given.strides[1] == Expr(1)) || !ir::is_floating_point(l.meta(0).dtype)) {
    return false;
  }
  const DType type = compute_type(l.meta(0).dtype);
  l.define(0, [&](Indices i) {
    const auto term = [&](std::int64_t k) {
      return l.read(left, {i[0], i[1], Index(k)}).to(type) *
             l.read(right, {i[0], Index(k), Index(0)}).to(type);
    };
    Formula sum = term(0);
    for (std::int64_t k = 1; k < *depth; ++k) {
      sum = sum + term(k);
    }
    return sum;
  });
  return true;
}

}  // namespace

void add_product_lowerings(Lowerings& lowerings) {
  lowerings["aten.mm.default"] = lower_mm;
  lowerings["aten.addmm.default"] = lower_addmm;
  lowerings["aten.bmm.default"] = lower_bmm;
}

}  // namespace kiln::codegen
