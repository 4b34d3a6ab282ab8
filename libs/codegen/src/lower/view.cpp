// Views: a map from the result's indices to the source's. No view costs a kernel.

#include <algorithm>

#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

using Map = std::function<std::vector<Index>(Indices)>;

bool is_empty(std::span<const Expr> sizes) {
  return std::ranges::any_of(sizes, [](const Expr& size) { return size == Expr(0); });
}

bool lower_identity(Lowering& l) {
  l.define_view(0, l.tensor(0), [](Indices i) { return std::vector<Index>(i.begin(), i.end()); });
  return true;
}

// Dims are matched in blocks of equal element count, so that only what is split or joined is
// divided.
std::vector<Index> reshape(Indices indices, std::span<const Expr> from, std::span<const Expr> to) {
  std::vector<Index> result(to.size());
  if (is_empty(to)) {
    return result;
  }
  std::size_t a = 0;
  std::size_t b = 0;
  while (a < from.size() || b < to.size()) {
    const std::size_t first_a = a;
    const std::size_t first_b = b;
    Expr count_a = a < from.size() ? from[a++] : Expr(1);
    Expr count_b = b < to.size() ? to[b++] : Expr(1);
    while (!(count_a == count_b)) {
      const bool grow_a =
          b == to.size() || (a < from.size() && (!count_a.is_constant() || !count_b.is_constant() ||
                                                 *count_a.constant() < *count_b.constant()));
      if (grow_a && a == from.size()) {
        break;
      }
      (grow_a ? count_a : count_b) = grow_a ? count_a * from[a++] : count_b * to[b++];
    }
    const auto part = indices.subspan(first_a, a - first_a);
    const Index position = linearize(part, from.subspan(first_a, a - first_a));
    const std::vector<Index> split = delinearize(position, to.subspan(first_b, b - first_b), from);
    std::ranges::copy(split, result.begin() + static_cast<std::ptrdiff_t>(first_b));
  }
  return result;
}

bool lower_reshape(Lowering& l) {
  const TensorId source = l.tensor(0);
  l.define_view(0, source, [&](Indices i) { return reshape(i, l.meta(0).sizes, l.sizes(source)); });
  return true;
}

bool lower_permute(Lowering& l) {
  const std::size_t rank = l.meta(0).sizes.size();
  std::vector<std::size_t> order;
  for (const Expr& dim : l.integers(1)) {
    order.push_back(wrap(*dim.constant(), rank));
  }
  l.define_view(0, l.tensor(0), [&](Indices i) {
    std::vector<Index> source(rank);
    for (std::size_t k = 0; k < rank; ++k) {
      source[order[k]] = i[k];
    }
    return source;
  });
  return true;
}

bool swap_dims(Lowering& l, std::size_t a, std::size_t b) {
  l.define_view(0, l.tensor(0), [&](Indices i) {
    std::vector<Index> source(i.begin(), i.end());
    std::swap(source[a], source[b]);
    return source;
  });
  return true;
}

bool lower_transpose(Lowering& l) {
  const std::size_t rank = l.meta(0).sizes.size();
  return rank == 0 ? lower_identity(l) : swap_dims(l, *l.dim(1, rank, 0), *l.dim(2, rank, 0));
}

bool lower_t(Lowering& l) {
  return l.meta(0).sizes.size() < 2 ? lower_identity(l) : swap_dims(l, 0, 1);
}

bool lower_expand(Lowering& l) {
  const TensorId source = l.tensor(0);
  const std::vector<Expr>& own = l.sizes(source);
  l.define_view(0, source, [&](Indices i) {
    std::vector<Index> result;
    for (std::size_t k = 0; k < own.size(); ++k) {
      result.push_back(own[k] == Expr(1) ? Index(0) : i[i.size() - own.size() + k]);
    }
    return result;
  });
  return true;
}

// Only dims of size 1 come and go: the others keep their order.
bool lower_unit_dims(Lowering& l) {
  const TensorId source = l.tensor(0);
  const std::vector<Expr>& to = l.sizes(source);
  const std::vector<Expr>& from = l.meta(0).sizes;
  l.define_view(0, source, [&](Indices i) {
    std::vector<Index> result(to.size());
    std::size_t next = 0;
    for (std::size_t k = 0; k < to.size(); ++k) {
      if (to[k] == Expr(1)) {
        continue;
      }
      while (from[next] == Expr(1)) {
        ++next;
      }
      result[k] = i[next++];
    }
    return result;
  });
  return true;
}

bool lower_slice(Lowering& l) {
  const TensorId source = l.tensor(0);
  const std::vector<Expr>& own = l.sizes(source);
  const std::optional<std::size_t> dim = l.dim(1, own.size(), 0);
  const Expr step = l.integer(4, 1);
  Expr start = l.integer(2, 0);
  const std::optional<std::int64_t> number = start.constant();
  if (!dim || !number) {
    return false;
  }
  if (*number < 0) {
    start = max(start + own[*dim], 0);
  }
  start = min(start, own[*dim]);
  l.define_view(0, source, [&](Indices i) {
    std::vector<Index> result(i.begin(), i.end());
    result[*dim] = i[*dim] * step + start;
    return result;
  });
  return true;
}

void define_select(Lowering& l, std::size_t result, std::size_t dim, const Expr& position) {
  l.define_view(result, l.tensor(0), [&](Indices i) {
    std::vector<Index> source(i.begin(), i.end());
    source.insert(source.begin() + static_cast<std::ptrdiff_t>(dim), Index(position));
    return source;
  });
}

bool lower_select(Lowering& l) {
  const std::vector<Expr>& own = l.sizes(l.tensor(0));
  const std::optional<std::size_t> dim = l.dim(1, own.size(), 0);
  const Expr position = l.integer(2);
  const std::optional<std::int64_t> number = position.constant();
  if (!dim || !number) {
    return false;
  }
  define_select(l, 0, *dim, *number < 0 ? position + own[*dim] : position);
  return true;
}

bool lower_unbind(Lowering& l) {
  const std::size_t dim = *l.dim(1, l.sizes(l.tensor(0)).size(), 0);
  for (std::size_t k = 0; k < l.result_count(); ++k) {
    define_select(l, k, dim, static_cast<std::int64_t>(k));
  }
  return true;
}

// Every result is the next piece along a dim, as long as its own size there.
bool lower_split(Lowering& l) {
  const TensorId source = l.tensor(0);
  const std::size_t dim = *l.dim(2, l.sizes(source).size(), 0);
  Expr start = 0;
  for (std::size_t k = 0; k < l.result_count(); ++k) {
    l.define_view(k, source, [&](Indices i) {
      std::vector<Index> result(i.begin(), i.end());
      result[dim] = i[dim] + start;
      return result;
    });
    start = start + l.meta(k).sizes[dim];
  }
  return true;
}

// Whether all that `window` shows are elements of `base`, which is dense, whatever varies.
bool lies_inside(const ir::TensorMeta& window,
                 const ir::TensorMeta& base,
                 const ir::Ranges& symbols) {
  const Expr first = window.offset - base.offset;
  Expr elements = 1, last = first;
  for (const Expr& size : base.sizes) {
    elements = elements * size;
  }
  for (std::size_t k = 0; k < window.sizes.size(); ++k) {
    last = last + (window.sizes[k] - 1) * window.strides[k];
  }
  return first.bounds(symbols).low >= 0 && (elements - last).bounds(symbols).low > 0;
}

// Whether strides describe a view with elements at `positions` of a tensor with `strides`.
bool is_affine(Indices positions, std::span<const Expr> strides, std::size_t rank) {
  Index address;
  for (std::size_t k = 0; k < positions.size(); ++k) {
    address = address + positions[k] * strides[k];
  }
  for (std::size_t i = 0; i < rank; ++i) {
    if (!address.factor_of(static_cast<int>(i))) {
      return false;
    }
  }
  return true;
}

// The dim that steps over all others; nothing where symbols leave open which one does.
std::optional<std::size_t> outermost_dim(const ir::TensorMeta& base) {
  const Expr elements = ir::element_count(base.sizes);
  for (std::size_t k = 0; k < base.sizes.size(); ++k) {
    if (base.sizes[k] != Expr(1) && base.sizes[k] * base.strides[k] == elements) {
      return k;
    }
  }
  return std::nullopt;
}

// A window on the storage is a map onto the dense tensor that fills it.
bool lower_as_strided(Lowering& l) {
  const TensorId source = l.tensor(0);
  const ir::TensorMeta& base = l.graph().tensor(std::get<ir::ValueId>(l.node().arguments[0]));
  if (is_empty(base.sizes) || !is_dense(base.sizes, base.strides)) {
    return false;
  }
  const ir::TensorMeta& window = l.meta(0);
  if (!lies_inside(window, base, l.graph().symbols())) {
    return false;
  }
  const std::optional<std::size_t> outermost = outermost_dim(base);
  const auto mapped = [&](Indices i) {
    Index address = window.offset - base.offset;
    for (std::size_t k = 0; k < i.size(); ++k) {
      address = address + i[k] * window.strides[k];
    }
    std::vector<Index> result;
    for (std::size_t k = 0; k < base.sizes.size(); ++k) {
      if (base.sizes[k] == Expr(1)) {
        result.emplace_back(0);
        continue;
      }
      const Index position = floor_div(address, base.strides[k], window.sizes);
      result.push_back(k == outermost ? position : mod(position, base.sizes[k], window.sizes));
    }
    return result;
  };
  // What is a view in eager must not become a copy.
  const std::size_t rank = window.sizes.size();
  if (!is_affine(mapped(variables(rank)), base.strides, rank)) {
    return false;
  }
  l.define_view(0, source, mapped);
  return true;
}

bool lower_flip(Lowering& l) {
  const TensorId source = l.tensor(0);
  const std::vector<Expr>& own = l.sizes(source);
  const std::vector<std::size_t> dims = l.dims(1, own.size());
  l.define(0, [&](Indices i) {
    std::vector<Index> mapped(i.begin(), i.end());
    for (const std::size_t dim : dims) {
      mapped[dim] = i[dim] * Expr(-1) + (own[dim] - 1);
    }
    return l.read(source, mapped);
  });
  return !l.integers(1).empty();
}

}  // namespace

void add_view_lowerings(Lowerings& table) {
  for (const auto* name : {"aten.alias.default",
                           "aten.detach.default",
                           "aten.lift_fresh.default",
                           "aten.lift.default"}) {
    table[name] = lower_identity;
  }
  for (const auto* name : {"aten.view.default",
                           "aten._unsafe_view.default",
                           "aten._reshape_alias.default",
                           "aten.view_copy.default"}) {
    table[name] = lower_reshape;
  }
  table["aten.permute.default"] = lower_permute;
  table["aten.transpose.int"] = lower_transpose;
  table["aten.t.default"] = lower_t;
  table["aten.expand.default"] = lower_expand;
  for (const auto* name : {"aten.unsqueeze.default",
                           "aten.squeeze.default",
                           "aten.squeeze.dim",
                           "aten.squeeze.dims"}) {
    table[name] = lower_unit_dims;
  }
  table["aten.slice.Tensor"] = lower_slice;
  table["aten.select.int"] = lower_select;
  table["aten.unbind.int"] = lower_unbind;
  for (const auto* name : {"aten.split.Tensor", "aten.split_with_sizes.default"}) {
    table[name] = lower_split;
  }
  table["aten.as_strided.default"] = lower_as_strided;
  table["aten.flip.default"] = lower_flip;
}

}  // namespace kiln::codegen
