// Reductions, norms, dot products and matrix products.

#include <cmath>
#include <limits>

#include "expansion.hpp"

namespace kiln::ir {
namespace {

/// The variance over argument 1, with the correction of argument 2.
Term variance(Expansion& e, Term x, const std::vector<std::size_t>& dimensions, bool keep) {
  std::vector<Expr> list;
  for (const std::size_t dimension : dimensions) {
    list.emplace_back(static_cast<std::int64_t>(dimension));
  }
  return e.compute(
      "aten.var.correction", {x.id, list, e.argument(2), keep}, reduced_meta(x, dimensions, keep));
}

Decomposition deviation(bool root, bool with_mean) {
  return {[=](Expansion& e) -> Expanded {
    const Term x = e.tensor(0);
    const std::vector<std::size_t> dimensions = e.dimensions(1, x.rank());
    const bool keep = e.flag(3);
    const Term squared = variance(e, x, dimensions, keep);
    std::vector<Term> results = {root ? sqrt(squared) : squared};
    if (with_mean) {
      results.push_back(mean(x, dimensions, keep));
    }
    return results;
  }};
}

Expanded log_sum_exp(Expansion& e) {
  const Term x = e.promoted(0);
  const std::vector<std::size_t> dimensions = e.dimensions(1, x.rank());
  const Term largest = amax(x, dimensions, true);
  const Term shift = where(is_infinite(largest), 0, largest);
  const Term total = log(sum(exp(x - shift), dimensions, true)) + shift;
  return one(e.flag(2) ? total : reshape(total, e.result(0).sizes));
}

Term norm(Term x, double order, const std::vector<std::size_t>& dimensions, bool keep) {
  // Of one element it is that: its power may be too large.
  const bool is_one = std::ranges::all_of(
      dimensions, [&](std::size_t dimension) { return x.meta().sizes[dimension] == Expr(1); });
  if (std::isinf(order) || (is_one && order != 0)) {
    return order > 0 ? amax(abs(x), dimensions, keep) : amin(abs(x), dimensions, keep);
  }
  if (order == 0) {
    return sum(x.expansion->cast(x != 0, x.meta().dtype), dimensions, keep);
  }
  if (order == 1) {
    return sum(abs(x), dimensions, keep);
  }
  if (order == 2) {
    return sqrt(sum(x * x, dimensions, keep));
  }
  return power(sum(power(abs(x), order), dimensions, keep), 1 / order);
}

/// Slices along a dimension, each scaled down to a norm.
Expanded renorm(Expansion& e) {
  const Term x = e.tensor(0);
  std::vector<std::size_t> dimensions = all_dimensions(x);
  std::erase(dimensions, e.dimension(2, x.rank()));
  const Term length = norm(x, e.number(1), dimensions, true);
  const double most = e.number(3);
  return one(x * where(length > most, apply("reciprocal", length + 1e-7) * most, 1));
}

Expanded all_of(Expansion& e) {
  if (e.result(0).dtype != DType::kBool) {
    return std::nullopt;  // Bytes give bytes.
  }
  const Term x = e.raw(0);
  const Term none = !x;
  TensorMeta meta = e.result(0);
  if (e.has(1) && std::holds_alternative<Expr>(e.argument(1))) {
    return one(!e.compute("aten.any.dim", {none.id, e.argument(1), e.flag(2)}, meta));
  }
  if (e.has(1)) {
    return one(!e.compute("aten.any.dims", {none.id, e.argument(1), e.flag(2)}, meta));
  }
  return one(!e.compute("aten.any.default", {none.id}, meta));
}

/// Row-major results of a matrix product.
Term product(Expansion& e, const char* target, Term a, Term b) {
  TensorMeta meta = a.meta();
  meta.sizes.back() = b.meta().sizes.back();
  meta.strides = contiguous_strides(meta.sizes);
  meta.offset = 0;
  meta.requires_grad = false;
  return e.compute(target, {a.id, b.id}, meta);
}

Term matrix_times_vector(Expansion& e, Term matrix, Term vector) {
  return squeeze(product(e, "aten.mm.default", matrix, unsqueeze(vector, 1)), 1);
}

/// argument 0 times beta (argument 3), plus `term` times alpha (argument 4).
Expanded plus(Expansion& e, Term term) {
  const Term scaled = term * e.number(4, 1);
  // What is not to count may be no number.
  return one(e.number(3, 1) == 0 ? scaled : e.raw(0) * e.number(3, 1) + scaled);
}

Expanded addr(Expansion& e) {
  return plus(e, unsqueeze(e.raw(1), 1) * e.raw(2));
}

Term softmax_sum(Expansion& e, Term term) {
  const std::size_t dimension[] = {e.dimension(2, term.rank())};
  return sum(term, dimension, true);
}

}  // namespace

void add_reduction_decompositions(Decompositions& table) {
  table["aten.std.correction"] = deviation(true, false);
  table["aten.std_mean.correction"] = deviation(true, true);
  table["aten.var_mean.correction"] = deviation(false, true);
  table["aten.logsumexp.default"] = {log_sum_exp};
  table["aten.linalg_vector_norm.default"] = {[](Expansion& e) {
    const Term x =
        e.cast(e.tensor(0),
               e.result(0).dtype == DType::kFloat64 ? DType::kFloat64 : e.tensor(0).meta().dtype);
    return one(norm(x, e.number(1, 2), e.dimensions(2, x.rank()), e.flag(3)));
  }};
  table["aten.norm.Scalar"] = {[](Expansion& e) {
    const Term x = e.tensor(0);
    return one(norm(x, e.number(1, 2), all_dimensions(x), false));
  }};
  table["aten.norm.ScalarOpt_dim"] = {[](Expansion& e) {
    const Term x = e.tensor(0);
    return one(norm(x, e.number(1, 2), e.dimensions(2, x.rank()), e.flag(3)));
  }};
  for (const char* name : {"aten.all.default", "aten.all.dim", "aten.all.dims"}) {
    table[name] = {all_of, true};
  }
  table["aten.aminmax.default"] = {
      [](Expansion& e) -> Expanded {
        const Term x = e.raw(0);
        const std::vector<std::size_t> dimensions =
            e.has(1) && x.rank() > 0 ? std::vector{e.dimension(1, x.rank())} : all_dimensions(x);
        return std::vector<Term>{amin(x, dimensions, e.flag(2)), amax(x, dimensions, e.flag(2))};
      },
      true};
  table["aten.sum.default"] = {[](Expansion& e) -> Expanded {
                                 const Term x =
                                     e.has(1) ? e.cast(e.raw(0), e.result(0).dtype) : e.raw(0);
                                 return one(sum_all(x));
                               },
                               true};
  table["aten.dot.default"] = {
      [](Expansion& e) { return one(sum_all(e.tensor(0) * e.tensor(1))); }};
  table["aten.mv.default"] = {
      [](Expansion& e) { return one(matrix_times_vector(e, e.raw(0), e.raw(1))); }};
  table["aten.addmv.default"] = {
      [](Expansion& e) { return plus(e, matrix_times_vector(e, e.raw(1), e.raw(2))); }};
  table["aten.addr.default"] = {addr};
  table["aten.renorm.default"] = {renorm};
  table["aten.baddbmm.default"] = {
      [](Expansion& e) { return plus(e, product(e, "aten.bmm.default", e.raw(1), e.raw(2))); }};
  table["aten.addbmm.default"] = {[](Expansion& e) {
    const std::size_t batch[] = {0};
    return plus(e, sum(product(e, "aten.bmm.default", e.raw(1), e.raw(2)), batch, false));
  }};
  table["aten._softmax_backward_data.default"] = {[](Expansion& e) {
    const Term weighted = e.tensor(0) * e.tensor(1);
    return one(weighted - e.tensor(1) * softmax_sum(e, weighted));
  }};
  table["aten._log_softmax_backward_data.default"] = {[](Expansion& e) {
    const Term gradient = e.tensor(0);
    return one(gradient - exp(e.tensor(1)) * softmax_sum(e, gradient));
  }};
}

}  // namespace kiln::ir
