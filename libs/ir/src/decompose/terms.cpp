// The operators and functions of terms, each one core operator.

#include <algorithm>
#include <limits>
#include <numeric>

#include "../geometry.hpp"
#include "expansion.hpp"

namespace kiln::ir {
namespace {

Term binary(const char* name, Term a, Term b) {
  return a.expansion->pointwise(std::string("aten.") + name + ".Tensor", {a.id, b.id});
}

Term comparison(const char* name, Term a, Argument b) {
  const char* overload = std::holds_alternative<ValueId>(b) ? ".Tensor" : ".Scalar";
  return a.expansion->pointwise(
      std::string("aten.") + name + overload, {a.id, std::move(b)}, DType::kBool);
}

/// A number combined with `a`: an integer stays one if `a` holds integers.
Argument literal(const Term& a, double number) {
  const auto whole = static_cast<std::int64_t>(number);
  if (!is_floating_point(a.meta().dtype) && static_cast<double>(whole) == number) {
    return Expr(whole);
  }
  return number;
}

Term scalar(const Term& beside, double number) {
  return beside.expansion->full({}, number, beside.meta().dtype, beside.meta().device);
}

std::vector<Expr> as_integers(Dimensions dimensions) {
  std::vector<Expr> list;
  for (const std::size_t dimension : dimensions) {
    list.emplace_back(static_cast<std::int64_t>(dimension));
  }
  return list;
}

Term reduction(const char* target, Term a, Dimensions dimensions, bool keep, bool has_dtype) {
  std::vector<Argument> arguments = {a.id, as_integers(dimensions), keep};
  if (has_dtype) {
    arguments.emplace_back(std::monostate());
  }
  TensorMeta meta = reduced_meta(a, dimensions, keep);
  if (has_dtype && !is_floating_point(meta.dtype) && !is_complex(meta.dtype)) {
    meta.dtype = DType::kInt64;
  }
  return a.expansion->compute(target, std::move(arguments), std::move(meta));
}

}  // namespace

TensorMeta reduced_meta(const Term& a, Dimensions dimensions, bool keep) {
  TensorMeta kept = a.meta();
  for (const std::size_t dimension : dimensions) {
    kept.sizes[dimension] = 1;
  }
  const TensorMeta* only[] = {&a.meta()};
  kept.strides = pointwise_strides(kept.sizes, only);
  kept.offset = 0;
  kept.requires_grad = false;
  if (keep) {
    return kept;
  }
  TensorMeta meta = kept;
  meta.sizes.clear();
  meta.strides.clear();
  for (std::size_t i = 0; i < kept.sizes.size(); ++i) {
    if (std::find(dimensions.begin(), dimensions.end(), i) == dimensions.end()) {
      meta.sizes.push_back(kept.sizes[i]);
      meta.strides.push_back(kept.strides[i]);
    }
  }
  return meta;
}

Term operator+(Term a, Term b) {
  return a.expansion->pointwise("aten.add.Tensor", {a.id, b.id, Expr(1)});
}
Term operator+(Term a, double b) {
  return a.expansion->pointwise("aten.add.Scalar", {a.id, literal(a, b), Expr(1)});
}
Term operator+(double a, Term b) {
  return b + a;
}
Term operator-(Term a, Term b) {
  return a.expansion->pointwise("aten.sub.Tensor", {a.id, b.id, Expr(1)});
}
Term operator-(Term a, double b) {
  return a.expansion->pointwise("aten.sub.Scalar", {a.id, literal(a, b), Expr(1)});
}
Term operator-(double a, Term b) {
  return -b + a;
}
Term operator*(Term a, Term b) {
  return binary("mul", a, b);
}
Term operator*(Term a, double b) {
  return b == 1 ? a : a.expansion->pointwise("aten.mul.Scalar", {a.id, literal(a, b)});
}
Term operator*(double a, Term b) {
  return b * a;
}
Term operator/(Term a, Term b) {
  return binary("div", a, b);
}
Term operator/(Term a, double b) {
  return b == 1 ? a : a.expansion->pointwise("aten.div.Scalar", {a.id, b});
}
Term operator-(Term a) {
  return apply("neg", a);
}

Term operator<(Term a, double b) {
  return comparison("lt", a, literal(a, b));
}
Term operator<=(Term a, double b) {
  return comparison("le", a, literal(a, b));
}
Term operator>(Term a, double b) {
  return comparison("gt", a, literal(a, b));
}
Term operator>=(Term a, double b) {
  return comparison("ge", a, literal(a, b));
}
Term operator<(Term a, Term b) {
  return comparison("lt", a, b.id);
}
Term operator<=(Term a, Term b) {
  return comparison("le", a, b.id);
}
Term operator>=(Term a, Term b) {
  return comparison("ge", a, b.id);
}
Term operator==(Term a, double b) {
  return comparison("eq", a, literal(a, b));
}
Term operator==(Term a, Term b) {
  return comparison("eq", a, b.id);
}
Term operator!=(Term a, double b) {
  return comparison("ne", a, literal(a, b));
}
Term operator&&(Term a, Term b) {
  return a.expansion->pointwise("aten.logical_and.default", {a.id, b.id}, DType::kBool);
}
Term operator||(Term a, Term b) {
  return a.expansion->pointwise("aten.logical_or.default", {a.id, b.id}, DType::kBool);
}
Term operator!(Term a) {
  return a.expansion->pointwise("aten.logical_not.default", {a.id}, DType::kBool);
}

Term apply(std::string_view name, Term a) {
  return a.expansion->pointwise("aten." + std::string(name) + ".default", {a.id});
}
Term exp(Term a) {
  return apply("exp", a);
}
Term log(Term a) {
  return apply("log", a);
}
Term log1p(Term a) {
  return apply("log1p", a);
}
Term sigmoid(Term a) {
  return apply("sigmoid", a);
}
Term tanh(Term a) {
  return apply("tanh", a);
}
Term abs(Term a) {
  return apply("abs", a);
}
Term sign(Term a) {
  return apply("sign", a);
}
Term sqrt(Term a) {
  return apply("sqrt", a);
}
Term rsqrt(Term a) {
  return apply("rsqrt", a);
}
Term is_nan(Term a) {
  return a.expansion->pointwise("aten.isnan.default", {a.id}, DType::kBool);
}
Term is_infinite(Term a) {
  return abs(a) == std::numeric_limits<double>::infinity();
}
Term maximum(Term a, Term b) {
  return a.expansion->pointwise("aten.maximum.default", {a.id, b.id});
}
Term minimum(Term a, Term b) {
  return a.expansion->pointwise("aten.minimum.default", {a.id, b.id});
}
Term power(Term a, double exponent) {
  return a.expansion->pointwise("aten.pow.Tensor_Scalar", {a.id, exponent});
}
Term clamp(Term a, std::optional<double> low, std::optional<double> high) {
  const auto bound = [&](const std::optional<double>& value) {
    return value ? literal(a, *value) : Argument(std::monostate());
  };
  return a.expansion->pointwise("aten.clamp.default", {a.id, bound(low), bound(high)});
}
Term where(Term condition, Term yes, Term no) {
  const TensorMeta* branches[] = {&yes.meta(), &no.meta()};
  const DType dtype = promote(branches);
  return condition.expansion->pointwise("aten.where.self", {condition.id, yes.id, no.id}, dtype);
}
Term where(Term condition, Term yes, double no) {
  return where(condition, yes, scalar(yes, no));
}
Term where(Term condition, double yes, Term no) {
  return where(condition, scalar(no, yes), no);
}

Term sum(Term a, Dimensions dimensions, bool keep) {
  return reduction("aten.sum.dim_IntList", a, dimensions, keep, true);
}
Term mean(Term a, Dimensions dimensions, bool keep) {
  return reduction("aten.mean.dim", a, dimensions, keep, true);
}
Term amax(Term a, Dimensions dimensions, bool keep) {
  return reduction("aten.amax.default", a, dimensions, keep, false);
}
Term amin(Term a, Dimensions dimensions, bool keep) {
  return reduction("aten.amin.default", a, dimensions, keep, false);
}
Term sum_all(Term a) {
  return sum(a, all_dimensions(a), false);
}
Term mean_all(Term a) {
  return mean(a, all_dimensions(a), false);
}

Term reshape(Term a, std::vector<Expr> sizes) {
  TensorMeta meta = a.meta();
  std::optional<std::vector<Expr>> strides = view_strides(meta, sizes);
  if (!strides) {
    meta.strides = contiguous_strides(meta.sizes);
    meta.offset = 0;
    a = a.expansion->compute("aten.clone.default", {a.id, MemoryFormat::kContiguous}, meta);
    strides = contiguous_strides(sizes);
  }
  meta.sizes = sizes;
  meta.strides = *std::move(strides);
  return a.expansion->view("aten.view.default", {a.id, std::move(sizes)}, std::move(meta));
}

Term permute(Term a, Dimensions order) {
  TensorMeta meta = a.meta();
  for (std::size_t i = 0; i < order.size(); ++i) {
    meta.sizes[i] = a.meta().sizes[order[i]];
    meta.strides[i] = a.meta().strides[order[i]];
  }
  return a.expansion->view("aten.permute.default", {a.id, as_integers(order)}, meta);
}

Term unsqueeze(Term a, std::size_t dimension) {
  TensorMeta meta = a.meta();
  const auto at = static_cast<std::ptrdiff_t>(dimension);
  const Expr stride =
      dimension < meta.sizes.size() ? meta.sizes[dimension] * meta.strides[dimension] : Expr(1);
  meta.sizes.insert(meta.sizes.begin() + at, 1);
  meta.strides.insert(meta.strides.begin() + at, stride);
  return a.expansion->view(
      "aten.unsqueeze.default", {a.id, Expr(static_cast<std::int64_t>(dimension))}, meta);
}

Term squeeze(Term a, std::size_t dimension) {
  TensorMeta meta = a.meta();
  const auto at = static_cast<std::ptrdiff_t>(dimension);
  meta.sizes.erase(meta.sizes.begin() + at);
  meta.strides.erase(meta.strides.begin() + at);
  return a.expansion->view(
      "aten.squeeze.dim", {a.id, Expr(static_cast<std::int64_t>(dimension))}, meta);
}

Term slice(Term a, std::size_t dimension, Expr start, Expr end) {
  TensorMeta meta = a.meta();
  meta.offset = meta.offset + start * meta.strides[dimension];
  meta.sizes[dimension] = end - start;
  return a.expansion->view("aten.slice.Tensor",
                           {a.id, Expr(static_cast<std::int64_t>(dimension)), start, end, Expr(1)},
                           meta);
}

Term cat(std::span<const Term> parts, std::size_t dimension) {
  TensorMeta meta = parts.front().meta();
  std::vector<ValueId> ids;
  meta.sizes[dimension] = 0;
  for (const Term& part : parts) {
    meta.sizes[dimension] = meta.sizes[dimension] + part.meta().sizes[dimension];
    ids.push_back(part.id);
  }
  meta.strides = contiguous_strides(meta.sizes);
  meta.offset = 0;
  // Whether the result is row-major depends on the parts; copied to row-major, they are, and it is.
  for (std::size_t i = 0; i < parts.size(); ++i) {
    TensorMeta row_major = parts[i].meta();
    row_major.strides = contiguous_strides(row_major.sizes);
    ids[i] = parts[i].expansion->like(parts[i], row_major).id;
  }
  return parts.front().expansion->compute(
      "aten.cat.default", {std::move(ids), Expr(static_cast<std::int64_t>(dimension))}, meta);
}

std::vector<std::size_t> all_dimensions(const Term& a) {
  std::vector<std::size_t> dimensions(a.rank());
  std::iota(dimensions.begin(), dimensions.end(), std::size_t{0});
  return dimensions;
}

std::optional<double> count(const Term& a) {
  const std::optional<std::int64_t> elements = element_count(a.meta().sizes).constant();
  return elements ? std::optional(static_cast<double>(*elements)) : std::nullopt;
}

}  // namespace kiln::ir
