// Reads at computed places, and tensors put together from others.

#include <algorithm>

#include "lowering.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

namespace {

// An index that counts from the end if it is negative.
Index wrapped(Formula index, const Expr& size) {
  const Formula extent{index.pool, index.pool->index(size)};
  const Formula positive = where(index < index.number(0), index + extent, index);
  return Index::computed(positive.id);
}

bool lower_embedding(Lowering& l) {
  const TensorId weight = l.tensor(0);
  const TensorId indices = l.tensor(1);
  l.define(0, [&](Indices i) {
    const Formula row = l.read(indices, {i.begin(), i.end() - 1}).to(DType::kInt64);
    return l.read(weight, {Index::computed(row.id), i.back()});
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
    mapped[dim] = Index::computed(l.read(indices, place).to(DType::kInt64).id);
    return l.read(source, mapped);
  });
  return true;
}

bool lower_gather(Lowering& l) {
  const TensorId source = l.tensor(0);
  const std::size_t rank = l.sizes(source).size();
  if (rank == 0) {
    return false;
  }
  const std::size_t dim = *l.dim(1, rank, 0);
  l.define(0, [&](Indices i) {
    std::vector<Index> mapped(i.begin(), i.end());
    mapped[dim] = Index::computed(l.broadcast(l.tensor(2), i).to(DType::kInt64).id);
    return l.read(source, mapped);
  });
  return true;
}

// index.Tensor(self, [i0, i1, …]): the indexed dims must come first and in a row.
bool lower_index(Lowering& l) {
  const TensorId source = l.tensor(0);
  std::vector<TensorId> indices;
  for (const ir::ValueId value : std::get<std::vector<ir::ValueId>>(l.node().arguments.at(1))) {
    if (!value.valid()) {
      return false;
    }
  }
  indices = l.tensors(1);
  std::size_t rank = 0;
  for (const TensorId index : indices) {
    if (!ir::is_integral(l.dtype(index)) || l.dtype(index) == DType::kUInt8) {
      return false;
    }
    rank = std::max(rank, l.sizes(index).size());
  }
  const std::vector<Expr>& own = l.sizes(source);
  l.define(0, [&](Indices i) {
    std::vector<Index> mapped;
    for (std::size_t k = 0; k < indices.size(); ++k) {
      mapped.push_back(wrapped(l.broadcast(indices[k], i.first(rank)).to(DType::kInt64), own[k]));
    }
    mapped.insert(mapped.end(), i.begin() + static_cast<std::ptrdiff_t>(rank), i.end());
    return l.read(source, mapped);
  });
  return true;
}

Formula index_value(Lowering& l, const Index& index) {
  return {&l.pool(), l.pool().index(index)};
}

// A piece is read within its bounds only: elsewhere its index is 0 and the value is not used.
Formula guarded_read(
    Lowering& l, TensorId tensor, std::vector<Index> indices, std::size_t dim, Formula inside) {
  const Formula position = index_value(l, indices[dim]);
  indices[dim] = Index::computed(where(inside, position, position.number(0)).id);
  return l.read(tensor, std::move(indices));
}

bool lower_cat(Lowering& l) {
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
  const std::size_t dim = *l.dim(1, sizes.size(), 0);
  if (parts.empty() || parts.size() > 8) {
    return false;
  }
  l.define(0, [&](Indices i) {
    // From the last to the first: each piece wins below its end.
    Formula result = l.constant(0, type);
    Expr end = sizes[dim];
    const Formula position = index_value(l, i[dim]);
    for (std::size_t k = parts.size(); k-- > 0;) {
      const Expr start = end - l.sizes(parts[k])[dim];
      std::vector<Index> mapped(i.begin(), i.end());
      mapped[dim] = i[dim] + Index(start * Expr(-1));
      const Formula below = position < index_value(l, end);
      if (parts.size() == 1) {
        result = l.read(parts[k], mapped).to(type);
      } else if (k + 1 == parts.size()) {
        const Formula inside = index_value(l, start) <= position;
        result = guarded_read(l, parts[k], mapped, dim, inside).to(type);
      } else {
        const Formula inside =
            k == 0 ? below : binary(ScalarOp::kAnd, below, index_value(l, start) <= position);
        result = where(below, guarded_read(l, parts[k], mapped, dim, inside).to(type), result);
      }
      end = start;
    }
    return result;
  });
  return true;
}

bool lower_constant_pad(Lowering& l) {
  const TensorId source = l.tensor(0);
  const std::vector<Expr>& own = l.sizes(source);
  const std::vector<Expr> padding = l.integers(1);
  const DType type = l.meta(0).dtype;
  if (std::ranges::any_of(own, [](const Expr& size) { return size == Expr(0); })) {
    return false;
  }
  l.define(0, [&](Indices i) {
    std::vector<Index> mapped(i.begin(), i.end());
    Formula inside{&l.pool(), l.pool().integer(1, DType::kBool)};
    for (std::size_t k = 0; 2 * k < padding.size(); ++k) {
      const std::size_t dim = own.size() - 1 - k;
      const Index place = i[dim] + Index(padding[2 * k] * Expr(-1));
      const Formula position = index_value(l, place);
      const Formula within = binary(
          ScalarOp::kAnd, position.number(0) <= position, position < index_value(l, own[dim]));
      mapped[dim] = Index::computed(where(within, position, position.number(0)).id);
      inside = binary(ScalarOp::kAnd, inside, within);
    }
    const Formula value = l.has(2) ? l.number(2, type) : l.constant(0, type);
    return where(inside, l.read(source, mapped).to(type), value);
  });
  return true;
}

}  // namespace

void add_gather_lowerings(Lowerings& table) {
  table["aten.embedding.default"] = lower_embedding;
  table["aten.index_select.default"] = lower_index_select;
  table["aten.gather.default"] = lower_gather;
  table["aten.index.Tensor"] = lower_index;
  table["aten.cat.default"] = lower_cat;
  table["aten.constant_pad_nd.default"] = lower_constant_pad;
}

}  // namespace kiln::codegen
