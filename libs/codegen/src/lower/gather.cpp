// Reads at computed places, and tensors put together from others.

#include <algorithm>

#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

namespace {

bool lower_embedding(Lowering& l) {
  const TensorId weight = l.tensor(0);
  const TensorId indices = l.tensor(1);
  l.define(0, [&](Indices i) {
    const Formula row = l.read(indices, {i.begin(), i.end() - 1});
    return l.read(weight, {bounded(row, l.sizes(weight)[0]).index(), i.back()});
  });
  return true;
}

bool lower_index_select(Lowering& l) {
  const TensorId source = l.tensor(0);
  const TensorId indices = l.tensor(2);
  const std::size_t rank = l.sizes(source).size();
  if (rank == 0) {
    return false;
  }
  const std::size_t dim = *l.dim(1, rank, 0);
  l.define(0, [&](Indices i) {
    std::vector<Index> place;
    if (!l.sizes(indices).empty()) {
      place.push_back(i[dim]);
    }
    std::vector<Index> mapped(i.begin(), i.end());
    mapped[dim] = bounded(l.read(indices, place), l.sizes(source)[dim]).index();
    return l.read(source, mapped);
  });
  return true;
}

bool lower_gather(Lowering& l) {
  const TensorId source = l.tensor(0);
  const std::size_t rank = l.sizes(source).size();
  // An index of nothing may have any number of dims.
  if (rank == 0 || l.sizes(l.tensor(2)).size() != rank) {
    return false;
  }
  const std::size_t dim = *l.dim(1, rank, 0);
  l.define(0, [&](Indices i) {
    std::vector<Index> mapped(i.begin(), i.end());
    mapped[dim] = bounded(l.broadcast(l.tensor(2), i), l.sizes(source)[dim]).index();
    return l.read(source, mapped);
  });
  return true;
}

// index.Tensor(self, [none, i0, i1, …]): the indexed dims must be in a row; what they are indexed
// by then takes their place.
bool lower_index(Lowering& l) {
  const TensorId source = l.tensor(0);
  const std::vector<std::optional<TensorId>> list = l.optional_tensors(1);
  const auto given = [](const std::optional<TensorId>& index) { return index.has_value(); };
  const auto begin = std::ranges::find_if(list, given);
  const auto end = std::find_if_not(begin, list.end(), given);
  if (begin == list.end() || std::any_of(end, list.end(), given)) {
    return false;
  }
  std::size_t rank = 0;
  for (auto index = begin; index != end; ++index) {
    if (!ir::is_integral(l.dtype(**index)) || l.dtype(**index) == DType::kUInt8) {
      return false;
    }
    rank = std::max(rank, l.sizes(**index).size());
  }
  const auto first = static_cast<std::size_t>(begin - list.begin());
  const std::vector<Expr> own = l.sizes(source);
  const std::vector<Expr> shape(
      l.meta(0).sizes.begin() + static_cast<std::ptrdiff_t>(first),
      l.meta(0).sizes.begin() + static_cast<std::ptrdiff_t>(first + rank));
  std::vector<TensorId> places;
  for (auto index = begin; index != end; ++index) {
    const Expr extent = own[first + places.size()];
    places.push_back(l.compute(shape, DType::kInt64, [&](Indices i) {
      return wrapped(l.broadcast(**index, i).to(DType::kInt64), extent);
    }));
  }
  l.define(0, [&](Indices i) {
    const auto at = i.begin() + static_cast<std::ptrdiff_t>(first);
    const auto behind = at + static_cast<std::ptrdiff_t>(rank);
    std::vector<Index> mapped(i.begin(), at);
    for (const TensorId place : places) {
      mapped.push_back(l.read(place, {at, behind}).index());
    }
    mapped.insert(mapped.end(), behind, i.end());
    return l.read(source, mapped);
  });
  return true;
}

Formula index_value(Lowering& l, const Index& index) {
  return {&l.pool(), l.pool().index(index)};
}

// Whether a size that varies can be 0: then index 0, which is read where nothing else is, is not
// there.
bool may_be_zero(const Lowering& l, const Expr& size) {
  return !size.is_constant() && !l.is_positive(size);
}

// A part is read within its bounds only: elsewhere its index is 0 and the value is not used.
Formula guarded_read(
    Lowering& l, TensorId tensor, std::vector<Index> indices, std::size_t dim, Formula inside) {
  const Formula position = index_value(l, indices[dim]);
  indices[dim] = where(inside, position, position.number(0)).index();
  return l.read(tensor, std::move(indices));
}

// Whether the loop over a concatenation along `dim` will be cut where its parts meet.
bool is_cut(const Lowering& l, const std::vector<Expr>& sizes, std::size_t dim) {
  const std::vector<Expr> outer(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(dim));
  const std::vector<Expr> inner(sizes.begin() + static_cast<std::ptrdiff_t>(dim), sizes.end());
  return ir::element_count(inner).is_constant() &&
         may_be_cut(l.hint(ir::element_count(outer)), l.hint(ir::element_count(sizes)));
}

// An element of `source` as one of `type`: rounded, where that is another type.
Formula converted(const Lowering& l, TensorId source, Formula element, DType type) {
  return l.dtype(source) == type ? element : rounded(element, type);
}

bool lower_cat(Lowering& l) {
  constexpr std::size_t kMaxConditions = 8;  // More parts need a loop that can be cut.
  constexpr std::size_t kMaxParts = 32;
  const std::vector<Expr>& sizes = l.meta(0).sizes;
  const DType type = l.meta(0).dtype;
  std::vector<TensorId> parts;
  for (const TensorId part : l.tensors(0)) {
    // An empty 1-d tensor may stand among others of any rank.
    if (l.sizes(part).size() == sizes.size() &&
        !std::ranges::any_of(l.sizes(part), [](const Expr& size) { return size == Expr(0); })) {
      parts.push_back(part);
    }
  }
  if (element_count(sizes) == Expr(0)) {
    l.define(0, [&](Indices) { return l.constant(0, type); });
    return true;
  }
  const std::size_t dim = *l.dim(1, sizes.size(), 0);
  if (parts.empty() || parts.size() > kMaxParts ||
      (parts.size() > kMaxConditions && !is_cut(l, sizes, dim))) {
    return false;
  }
  if (parts.size() > 1 && std::ranges::any_of(parts, [&](TensorId part) {
        return may_be_zero(l, l.sizes(part)[dim]);
      })) {
    return false;
  }
  const auto body = [&](Indices i) {
    // From the last to the first: each part replaces the result below its end.
    Formula result = l.constant(0, type);
    Expr end = sizes[dim];
    const Formula position = index_value(l, i[dim]);
    for (std::size_t k = parts.size(); k-- > 0;) {
      const Expr start = end - l.sizes(parts[k])[dim];
      std::vector<Index> mapped(i.begin(), i.end());
      mapped[dim] = i[dim] + Index(start * Expr(-1));
      const Formula below = position < index_value(l, end);
      if (parts.size() == 1) {
        result = converted(l, parts[k], l.read(parts[k], mapped), type);
      } else if (k + 1 == parts.size()) {
        const Formula inside = index_value(l, start) <= position;
        result = converted(l, parts[k], guarded_read(l, parts[k], mapped, dim, inside), type);
      } else {
        const Formula inside =
            k == 0 ? below : binary(ScalarOp::kAnd, below, index_value(l, start) <= position);
        const Formula element = guarded_read(l, parts[k], mapped, dim, inside);
        result = where(below, converted(l, parts[k], element, type), result);
      }
      end = start;
    }
    return result;
  };
  if (parts.size() > kMaxConditions) {
    l.define_concatenation(0, body);
  } else {
    l.define(0, body);
  }
  return true;
}

// select_scatter(self, source, dim, index): self with one slice replaced. The result has self's
// strides, gaps included: those with gaps are libtorch's.
bool lower_select_scatter(Lowering& l) {
  const std::vector<Expr>& sizes = l.meta(0).sizes;
  const std::optional<std::size_t> dim = l.dim(2, sizes.size(), 0);
  const Expr index = l.integer(3);
  const std::optional<std::int64_t> number = index.constant();
  if (!dim || !number || !is_dense(l.meta(0).sizes, l.meta(0).strides)) {
    return false;
  }
  const Expr place = *number < 0 ? index + sizes[*dim] : index;
  l.define(0, [&](Indices i) {
    std::vector<Index> rest(i.begin(), i.end());
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(*dim));
    const DType type = l.meta(0).dtype;
    const Formula here =
        compare(ScalarOp::kEqual, index_value(l, i[*dim]), index_value(l, Index(place)));
    const Formula element = converted(l, l.tensor(1), l.read(l.tensor(1), rest), type);
    return where(here, element, l.operand(0, i, type));
  });
  return true;
}

// slice_scatter(self, source, dim, start, end, step): self with every step-th slice replaced.
bool lower_slice_scatter(Lowering& l) {
  const std::vector<Expr>& sizes = l.meta(0).sizes;
  const TensorId source = l.tensor(1);
  const std::optional<std::size_t> dim = l.dim(2, sizes.size(), 0);
  const std::optional<std::int64_t> step = l.integer(5, 1).constant();
  Expr start = l.integer(3, 0);
  const std::optional<std::int64_t> number = start.constant();
  if (!dim || !step || !number || !sizes[*dim].is_constant() ||
      !is_dense(l.meta(0).sizes, l.meta(0).strides)) {
    return false;
  }
  if (*number < 0) {
    start = max(start + sizes[*dim], 0);
  }
  start = min(start, sizes[*dim]);
  const Expr length = l.sizes(source)[*dim];
  if (may_be_zero(l, length)) {
    return false;
  }
  if (length == Expr(0)) {
    l.define(0, [&](Indices i) { return l.operand(0, i, l.meta(0).dtype); });
    return true;
  }
  l.define(0, [&](Indices i) {
    const DType type = l.meta(0).dtype;
    const Formula distance = index_value(l, i[*dim] + Index(start * Expr(-1)));
    Formula inside = binary(ScalarOp::kAnd,
                            distance.number(0) <= distance,
                            distance < index_value(l, Index(length * Expr(*step))));
    Formula place = distance;
    if (*step != 1) {
      const Formula width = distance.number(static_cast<double>(*step));
      const Formula rest = binary(ScalarOp::kFmod, distance, width);
      inside = binary(ScalarOp::kAnd, inside, compare(ScalarOp::kEqual, rest, distance.number(0)));
      place = binary(ScalarOp::kTruncateDivide, distance, width);
    }
    std::vector<Index> mapped(i.begin(), i.end());
    mapped[*dim] = where(inside, place, place.number(0)).index();
    const Formula element = converted(l, source, l.read(source, mapped), type);
    return where(inside, element, l.operand(0, i, type));
  });
  return true;
}

bool lower_constant_pad(Lowering& l) {
  const TensorId source = l.tensor(0);
  const std::vector<Expr>& own = l.sizes(source);
  const std::vector<Expr> padding = l.integers(1);
  const DType type = l.meta(0).dtype;
  if (std::ranges::any_of(
          own, [&](const Expr& size) { return size == Expr(0) || may_be_zero(l, size); })) {
    return false;
  }
  l.define(0, [&](Indices i) {
    std::vector<Index> place(i.begin(), i.end());
    std::vector<std::size_t> dims;
    for (std::size_t k = 0; 2 * k < padding.size(); ++k) {
      const std::size_t dim = own.size() - 1 - k;
      place[dim] = i[dim] + Index(padding[2 * k] * Expr(-1));
      dims.push_back(dim);
    }
    return read_or(l, source, place, dims, l.has(2) ? l.element(2, type) : l.constant(0, type));
  });
  return true;
}

}  // namespace

Formula bounded(Formula index, const Expr& size) {
  const Formula extent{index.pool, index.pool->index(size)};
  return binary(ScalarOp::kCheckIndex, index.to(DType::kInt64), extent);
}

Formula wrapped(Formula index, const Expr& size) {
  const Formula extent{index.pool, index.pool->index(size)};
  return bounded(where(index < index.number(0), index + extent, index), size);
}

Formula read_or(Lowering& lowering,
                TensorId source,
                std::vector<Index> place,
                std::span<const std::size_t> dims,
                Formula outside) {
  Formula inside{&lowering.pool(), lowering.pool().integer(1, DType::kBool)};
  for (const std::size_t dim : dims) {
    const Formula position = index_value(lowering, place[dim]);
    const Formula within = binary(ScalarOp::kAnd,
                                  position.number(0) <= position,
                                  position < index_value(lowering, lowering.sizes(source)[dim]));
    place[dim] = where(within, position, position.number(0)).index();
    inside = binary(ScalarOp::kAnd, inside, within);
  }
  const Formula element = lowering.read(source, std::move(place)).to(outside.dtype());
  return dims.empty() ? element : where(inside, element, outside);
}

void add_gather_lowerings(Lowerings& table) {
  table["aten.embedding.default"] = lower_embedding;
  table["aten.index_select.default"] = lower_index_select;
  table["aten.gather.default"] = lower_gather;
  table["aten.index.Tensor"] = lower_index;
  table["aten.cat.default"] = lower_cat;
  table["aten.select_scatter.default"] = lower_select_scatter;
  table["aten.slice_scatter.default"] = lower_slice_scatter;
  table["aten.constant_pad_nd.default"] = lower_constant_pad;
}

}  // namespace kiln::codegen
