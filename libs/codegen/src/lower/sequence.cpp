// Running totals, and elements written one after the other at computed places.

#include <algorithm>

#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

namespace {

// What ATen keeps running totals in.
DType total_type(DType type) {
  return ir::is_integral(type)                                ? DType::kInt64
         : type == DType::kFloat32 || type == DType::kFloat64 ? DType::kFloat64
                                                              : DType::kFloat32;
}

// cumsum(self, dim, dtype): self is converted first.
Lower running(Reduction reduction) {
  return [reduction](Lowering& l) {
    const DType type = l.meta(0).dtype;
    const std::size_t rank = l.meta(0).sizes.size();
    const std::optional<std::size_t> dim = l.dim(1, rank, 0);
    const bool narrow = type == DType::kFloat16 || type == DType::kBFloat16;
    if (!dim || type == DType::kBool || (narrow && l.dtype(l.tensor(0)) != type)) {
      return false;
    }
    const auto body = [&](Indices i) { return l.operand(0, i, type); };
    if (rank == 0) {
      l.define(0, body);
    } else {
      l.define_scan(0, reduction, *dim, total_type(type), body);
    }
    return true;
  };
}

// How updates are combined with what is there; nothing inside: they replace it. Nothing: unknown.
using Combination = std::optional<std::optional<Reduction>>;

Combination combination_of(std::string_view name) {
  return name == "sum"    ? Combination(Reduction::kSum)
         : name == "prod" ? Combination(Reduction::kProduct)
         : name == "amax" ? Combination(Reduction::kMaximum)
         : name == "amin" ? Combination(Reduction::kMinimum)
                          : std::nullopt;
}

// A result that updates may write into: its strides are self's, gaps included, and those with gaps
// are libtorch's. An index that is out of range must have some element to be put on instead.
bool is_writable(const Lowering& l, Combination combination, std::size_t first, std::size_t last) {
  const ir::TensorMeta& meta = l.meta(0);
  bool filled = true;
  for (std::size_t dim = first; dim < last; ++dim) {
    filled = filled && l.is_positive(meta.sizes[dim]);
  }
  return combination && filled && is_dense(meta.sizes, meta.strides) &&
         (!*combination || meta.dtype != DType::kBool);
}

Formula self_of(const Lowering& l, Indices i) {
  return l.operand(0, i, l.meta(0).dtype);
}

// scatter(self, dim, index, source): an update for each element of `index`.
bool scatter(Lowering& l, Combination combination) {
  const std::size_t rank = l.meta(0).sizes.size();
  const std::optional<std::size_t> dim = l.dim(1, rank, 0);
  const TensorId index = l.tensor(2);
  if (!dim || rank == 0 || l.sizes(index).size() != rank ||
      !is_writable(l, combination, *dim, *dim + 1)) {
    return false;
  }
  const std::vector<Index> i = variables(rank);
  Updates updates{.sizes = l.sizes(index), .first = *dim, .last = *dim + 1, .place = i};
  updates.place[*dim] = bounded(l.read(index, i), l.meta(0).sizes[*dim]).index();
  // The source may be larger than the index: no broadcast.
  updates.value = (l.is_tensor(3) ? l.read(l.tensor(3), i) : l.number(3, l.meta(0).dtype)).id;
  updates.reduction = *combination;
  l.define_scatter(0, [&](Indices k) { return self_of(l, k); }, std::move(updates));
  return true;
}

Lower scatter_with(Combination combination) {
  return [combination](Lowering& l) { return scatter(l, combination); };
}

// scatter_reduce(self, dim, index, source, reduce, include_self)
bool lower_scatter_reduce(Lowering& l) {
  return l.flag(5, true) && scatter(l, combination_of(l.text(4)));
}

// index_add(self, dim, index, source, alpha) and index_copy(self, dim, index, source): an update
// for each slice of `source`.
Lower slices(std::optional<Reduction> reduction) {
  return [reduction](Lowering& l) {
    const DType type = l.meta(0).dtype;
    const std::size_t rank = l.meta(0).sizes.size();
    const std::optional<std::size_t> dim = l.dim(1, rank, 0);
    const TensorId index = l.tensor(2);
    const TensorId source = l.tensor(3);
    if (!dim || rank == 0 || l.sizes(source).size() != rank || l.dtype(source) != type ||
        !is_writable(l, reduction, *dim, *dim + 1)) {
      return false;
    }
    const std::vector<Index> i = variables(rank);
    Updates updates{.sizes = l.sizes(source), .first = *dim, .last = *dim + 1, .place = i};
    const std::vector<Index> which =
        l.sizes(index).empty() ? std::vector<Index>{} : std::vector<Index>{i[*dim]};
    updates.place[*dim] = bounded(l.read(index, which), l.meta(0).sizes[*dim]).index();
    Formula value = l.read(source, i);
    if (reduction && l.has(4)) {
      value = value * l.number(4, type);
    }
    updates.value = value.id;
    updates.reduction = reduction;
    l.define_scatter(0, [&](Indices k) { return self_of(l, k); }, std::move(updates));
    return true;
  };
}

// index_put(self, [i0, i1, …], values, accumulate): the indexed dims must come first and in a row.
bool lower_index_put(Lowering& l) {
  const auto& given = std::get<std::vector<ir::ValueId>>(l.node().arguments.at(1));
  if (given.empty() || !std::ranges::all_of(given, &ir::ValueId::valid)) {
    return false;
  }
  const std::vector<TensorId> indices = l.tensors(1);
  std::vector<Expr> sizes;
  for (const TensorId index : indices) {
    const std::vector<Expr>& own = l.sizes(index);
    if (!ir::is_integral(l.dtype(index)) || l.dtype(index) == DType::kUInt8) {
      return false;
    }
    sizes.insert(sizes.begin(), std::max(own.size(), sizes.size()) - sizes.size(), Expr(1));
    for (std::size_t k = 0; k < own.size(); ++k) {
      Expr& size = sizes[sizes.size() - own.size() + k];
      size = own[k] == Expr(1) ? size : own[k];
    }
  }
  const std::size_t serial = sizes.size();
  const std::vector<Expr>& own = l.meta(0).sizes;
  sizes.insert(sizes.end(), own.begin() + static_cast<std::ptrdiff_t>(indices.size()), own.end());
  const std::optional<Reduction> reduction =
      l.flag(3) ? std::optional(Reduction::kSum) : std::nullopt;
  if (!is_writable(l, reduction, 0, indices.size()) || l.sizes(l.tensor(2)).size() > sizes.size()) {
    return false;
  }
  const std::vector<Index> i = variables(sizes.size());
  Updates updates{.sizes = sizes, .first = 0, .last = serial};
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const Formula index = l.broadcast(indices[k], Indices(i).first(serial));
    updates.place.push_back(wrapped(index.to(DType::kInt64), own[k]).index());
  }
  updates.place.insert(
      updates.place.end(), i.begin() + static_cast<std::ptrdiff_t>(serial), i.end());
  updates.value = l.broadcast(l.tensor(2), i).id;
  updates.reduction = reduction;
  l.define_scatter(0, [&](Indices k) { return self_of(l, k); }, std::move(updates));
  return true;
}

// embedding_dense_backward(gradient, indices, num_weights, padding_idx, scale_grad_by_freq)
bool lower_embedding_backward(Lowering& l) {
  const TensorId gradient = l.tensor(0);
  const TensorId indices = l.tensor(1);
  const std::optional<std::int64_t> padding = l.integer(3, -1).constant();
  if (!padding || l.flag(4) || !is_writable(l, Reduction::kSum, 0, 1)) {
    return false;
  }
  const std::vector<Index> i = variables(l.sizes(gradient).size());
  const Formula row = l.read(indices, {i.begin(), i.end() - 1});
  Formula value = l.read(gradient, i);
  if (*padding >= 0) {
    const Formula padded =
        compare(ScalarOp::kEqual, row, row.number(static_cast<double>(*padding)));
    value = where(padded, value.number(0), value);
  }
  Updates updates{.sizes = l.sizes(gradient), .first = 0, .last = i.size() - 1, .value = value.id};
  updates.place = {bounded(row, l.meta(0).sizes[0]).index(), i.back()};
  updates.reduction = Reduction::kSum;
  l.define_scatter(0, [&](Indices) { return l.constant(0, l.meta(0).dtype); }, std::move(updates));
  return true;
}

}  // namespace

void add_sequence_lowerings(Lowerings& table) {
  table["aten.cumsum.default"] = running(Reduction::kSum);
  table["aten.cumprod.default"] = running(Reduction::kProduct);
  table["aten.scatter.src"] = scatter_with(std::optional<Reduction>());
  table["aten.scatter.value"] = scatter_with(std::optional<Reduction>());
  table["aten.scatter_add.default"] = scatter_with(Reduction::kSum);
  table["aten.scatter_reduce.two"] = lower_scatter_reduce;
  table["aten.index_add.default"] = slices(Reduction::kSum);
  table["aten.index_copy.default"] = slices(std::nullopt);
  table["aten.index_put.default"] = lower_index_put;
  table["aten.embedding_dense_backward.default"] = lower_embedding_backward;
}

}  // namespace kiln::codegen
