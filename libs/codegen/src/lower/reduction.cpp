// Sums, extremes and norms over dims.

#include <algorithm>
#include <cmath>
#include <limits>

#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

namespace {

Formula identity(Formula x) {
  return x;
}

// The type that sums of `dtype` are kept in.
DType accumulator(DType dtype) {
  return compute_type(dtype);
}

void reduce_into(Lowering& l,
                 Reduction reduction,
                 const std::vector<std::size_t>& dims,
                 bool keep,
                 DType type,
                 const std::function<Formula(Formula)>& finish,
                 const std::function<Formula(Formula)>& start = identity) {
  const TensorId source = l.tensor(0);
  const TensorId reduced = l.reduce(reduction, l.sizes(source), dims, type, [&](Indices i) {
    return start(l.broadcast(source, i)).to(type);
  });
  l.define_reduced(0, reduced, dims, keep, finish);
}

// sum(self, dims, keep): the type to add in is the result's.
Lower plain(Reduction reduction, int dims, int keep) {
  return [=](Lowering& l) {
    const std::size_t rank = l.sizes(l.tensor(0)).size();
    const auto all =
        dims < 0 ? l.dims(l.argument_count(), rank) : l.dims(static_cast<std::size_t>(dims), rank);
    const bool keeps = keep >= 0 && l.flag(static_cast<std::size_t>(keep));
    // What is asked for in a half type is of elements in it.
    const DType type = l.meta(0).dtype;
    const bool rounds = ir::is_half(type) && l.dtype(l.tensor(0)) != type;
    reduce_into(l, reduction, all, keeps, accumulator(type), identity, [&](Formula element) {
      return rounds ? rounded(element, type) : element;
    });
    return type != DType::kBool;
  };
}

// any and all: of truth values, whatever the result's type is (uint8 stays uint8).
Lower truth(Reduction reduction, int dims, int keep) {
  return [=](Lowering& l) {
    const std::size_t rank = l.sizes(l.tensor(0)).size();
    const auto list = static_cast<std::size_t>(dims);
    if (dims >= 0 && l.has(list) && l.integers(list).empty()) {
      // An empty list is no dims here, not all of them.
      l.define(0, [&](Indices i) { return l.operand(0, i, DType::kBool); });
      return true;
    }
    const auto all = dims < 0 ? l.dims(l.argument_count(), rank) : l.dims(list, rank);
    const bool keeps = keep >= 0 && l.flag(static_cast<std::size_t>(keep));
    reduce_into(l, reduction, all, keeps, DType::kBool, identity);
    return true;
  };
}

Lower mean_over(int dims, int keep) {
  return [=](Lowering& l) {
    const std::vector<Expr>& sizes = l.sizes(l.tensor(0));
    const auto all = dims < 0 ? l.dims(l.argument_count(), sizes.size())
                              : l.dims(static_cast<std::size_t>(dims), sizes.size());
    const Expr number = count(sizes, all);
    if (!ir::is_floating_point(l.meta(0).dtype)) {
      return false;
    }
    reduce_into(l,
                Reduction::kSum,
                all,
                keep >= 0 && l.flag(static_cast<std::size_t>(keep)),
                accumulator(l.meta(0).dtype),
                [&](Formula sum) { return sum / l.extent(number, sum.dtype()); });
    return true;
  };
}

// Extremes over nothing are errors of ATen's own.
bool is_empty_reduction(const std::vector<Expr>& sizes, const std::vector<std::size_t>& dims) {
  return count(sizes, dims) == Expr(0);
}

Lower extreme(Reduction reduction, int dims, int keep) {
  return [=](Lowering& l) {
    const std::vector<Expr>& sizes = l.sizes(l.tensor(0));
    const auto all = dims < 0 ? l.dims(l.argument_count(), sizes.size())
                              : l.dims(static_cast<std::size_t>(dims), sizes.size());
    if (is_empty_reduction(sizes, all) || l.meta(0).dtype == DType::kBool) {
      return false;
    }
    reduce_into(l,
                reduction,
                all,
                keep >= 0 && l.flag(static_cast<std::size_t>(keep)),
                compute_type(l.meta(0).dtype),
                identity);
    return true;
  };
}

// The type of places among `number` elements: vectors of it have as many elements as those of float
// where it is 32 bits, and GPUs compute with no more at once.
DType place_type(const Expr& number) {
  constexpr std::int64_t kLast = std::numeric_limits<std::int32_t>::max();
  return number.constant().value_or(kLast) < kLast ? DType::kInt32 : DType::kInt64;
}

// The first place of the extreme: the least index at which it is met. NaN meets NaN.
TensorId extreme_index(Lowering& l,
                       TensorId source,
                       TensorId best,
                       const std::vector<std::size_t>& dims,
                       const std::function<Index(Indices)>& position) {
  const DType type = place_type(count(l.sizes(source), dims));
  const std::int64_t none = type == DType::kInt32 ? std::numeric_limits<std::int32_t>::max()
                                                  : std::numeric_limits<std::int64_t>::max();
  return l.reduce(Reduction::kMinimum, l.sizes(source), dims, type, [&](Indices i) {
    const Formula x = l.broadcast(source, i);
    const Formula extreme_value = l.read(best, kept_indices(i, dims));
    Formula met = compare(ScalarOp::kEqual, x, extreme_value);
    if (ir::is_floating_point(x.dtype())) {
      met = binary(ScalarOp::kOr, met, unary(ScalarOp::kIsNan, x));
    }
    const Formula place{&l.pool(), l.pool().index(position(i))};
    const Formula never{&l.pool(), l.pool().integer(none, type)};
    return where(met, place.to(type), never);
  });
}

Lower argument_of(Reduction reduction) {
  return [reduction](Lowering& l) {
    const TensorId source = l.tensor(0);
    const std::vector<Expr> sizes = l.sizes(source);
    const auto dims = l.dims(1, sizes.size());
    if (is_empty_reduction(sizes, dims) || l.dtype(source) == DType::kBool) {
      return false;
    }
    const TensorId best =
        l.reduce(reduction, sizes, dims, compute_type(l.dtype(source)), [&](Indices i) {
          return l.broadcast(source, i);
        });
    const TensorId place = extreme_index(l, source, best, dims, [&](Indices i) {
      return l.has(1) && !i.empty() ? i[dims[0]] : linearize(i, sizes);
    });
    l.define_reduced(0, place, dims, l.flag(2), identity);
    return true;
  };
}

// max.dim: values and indices.
Lower extreme_with_index(Reduction reduction) {
  return [reduction](Lowering& l) {
    const TensorId source = l.tensor(0);
    const std::vector<Expr> sizes = l.sizes(source);
    if (sizes.empty() || l.dtype(source) == DType::kBool) {
      return false;
    }
    const std::vector<std::size_t> dims{*l.dim(1, sizes.size(), 0)};
    if (is_empty_reduction(sizes, dims)) {
      return false;
    }
    const TensorId best =
        l.reduce(reduction, sizes, dims, compute_type(l.dtype(source)), [&](Indices i) {
          return l.broadcast(source, i);
        });
    l.define_reduced(0, best, dims, l.flag(2), identity);
    if (l.wants(1)) {
      const TensorId place =
          extreme_index(l, source, best, dims, [&](Indices i) { return i[dims[0]]; });
      l.define_reduced(1, place, dims, l.flag(2), identity);
    }
    return true;
  };
}

// What a norm adds up, or takes the extreme of.
Formula norm_term(double order, Formula x) {
  if (order == 0) {
    return compare(ScalarOp::kNotEqual, x, x.number(0)).to(x.dtype());
  }
  if (order == 2) {
    return x * x;
  }
  const Formula magnitude = unary(ScalarOp::kAbsolute, x);
  return order == 1 || std::isinf(order)
             ? magnitude
             : binary(ScalarOp::kPower, magnitude, magnitude.number(order));
}

Formula norm_of_total(double order, Formula total) {
  if (order == 2) {
    return unary(ScalarOp::kSqrt, total);
  }
  return order == 0 || order == 1 || std::isinf(order)
             ? total
             : binary(ScalarOp::kPower, total, total.number(1 / order));
}

// linalg_vector_norm(self, ord, dims, keep, dtype)
bool lower_vector_norm(Lowering& l) {
  const TensorId source = l.tensor(0);
  const std::vector<Expr> sizes = l.sizes(source);
  const auto dims = l.dims(2, sizes.size());
  // Of one element it is that, as the largest is: its power may be too large.
  const bool is_one = count(sizes, dims) == Expr(1) && l.real(1, 2) != 0;
  const double order = is_one ? std::numeric_limits<double>::infinity() : l.real(1, 2);
  const DType type = compute_type(l.meta(0).dtype);
  if (!ir::is_floating_point(l.dtype(source)) || is_empty_reduction(sizes, dims)) {
    return false;
  }
  const Reduction reduction = !std::isinf(order) ? Reduction::kSum
                              : order < 0        ? Reduction::kMinimum
                                                 : Reduction::kMaximum;
  const TensorId reduced = l.reduce(reduction, sizes, dims, type, [&](Indices i) {
    return norm_term(order, l.broadcast(source, i).to(type));
  });
  l.define_reduced(
      0, reduced, dims, l.flag(3), [&](Formula total) { return norm_of_total(order, total); });
  return true;
}

bool lower_logsumexp(Lowering& l) {
  const TensorId source = l.tensor(0);
  const std::vector<Expr> sizes = l.sizes(source);
  const auto dims = l.dims(1, sizes.size());
  const DType type = compute_type(l.meta(0).dtype);
  if (is_empty_reduction(sizes, dims) || !ir::is_floating_point(type)) {
    return false;
  }
  const TensorId best = l.reduce(Reduction::kMaximum, sizes, dims, type, [&](Indices i) {
    return l.broadcast(source, i).to(type);
  });
  // An infinite maximum is not subtracted: the sum is then infinite or zero by itself.
  const auto shift = [&](Formula maximum) {
    const Formula infinity = maximum.number(std::numeric_limits<double>::infinity());
    const Formula finite = unary(ScalarOp::kAbsolute, maximum) < infinity;
    return where(finite, maximum, maximum.number(0));
  };
  const TensorId sum = l.reduce(Reduction::kSum, sizes, dims, type, [&](Indices i) {
    return unary(ScalarOp::kExp,
                 l.broadcast(source, i).to(type) - shift(l.read(best, kept_indices(i, dims))));
  });
  const bool keep = l.flag(2);
  l.define(0, [&](Indices i) {
    const std::vector<Index> kept =
        keep ? kept_indices(i, dims) : std::vector<Index>(i.begin(), i.end());
    return unary(ScalarOp::kLog, l.read(sum, kept)) + shift(l.read(best, kept));
  });
  return true;
}

}  // namespace

void add_reduction_lowerings(Lowerings& table) {
  table["aten.sum.default"] = plain(Reduction::kSum, -1, -1);
  table["aten.sum.dim_IntList"] = plain(Reduction::kSum, 1, 2);
  table["aten.prod.default"] = plain(Reduction::kProduct, -1, -1);
  table["aten.prod.dim_int"] = plain(Reduction::kProduct, 1, 2);
  table["aten.any.default"] = truth(Reduction::kAny, -1, -1);
  table["aten.any.dim"] = truth(Reduction::kAny, 1, 2);
  table["aten.any.dims"] = truth(Reduction::kAny, 1, 2);
  table["aten.all.default"] = truth(Reduction::kAll, -1, -1);
  table["aten.all.dim"] = truth(Reduction::kAll, 1, 2);
  table["aten.all.dims"] = truth(Reduction::kAll, 1, 2);
  table["aten.mean.default"] = mean_over(-1, -1);
  table["aten.mean.dim"] = mean_over(1, 2);
  table["aten.amax.default"] = extreme(Reduction::kMaximum, 1, 2);
  table["aten.amin.default"] = extreme(Reduction::kMinimum, 1, 2);
  table["aten.max.default"] = extreme(Reduction::kMaximum, -1, -1);
  table["aten.min.default"] = extreme(Reduction::kMinimum, -1, -1);
  table["aten.max.dim"] = extreme_with_index(Reduction::kMaximum);
  table["aten.min.dim"] = extreme_with_index(Reduction::kMinimum);
  table["aten.argmax.default"] = argument_of(Reduction::kMaximum);
  table["aten.argmin.default"] = argument_of(Reduction::kMinimum);
  table["aten.linalg_vector_norm.default"] = lower_vector_norm;
  table["aten.logsumexp.default"] = lower_logsumexp;
}

}  // namespace kiln::codegen
