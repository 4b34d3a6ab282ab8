// Operators that move elements or make tensors, and compute nothing.

#include <algorithm>

#include "expansion.hpp"

namespace kiln::ir {
namespace {

/// A view whose result is as it was recorded.
Decomposition view_as(const char* target, std::vector<Argument> (*arguments)(Expansion&)) {
  return {[=](Expansion& e) -> Expanded {
            std::vector<Argument> all = arguments(e);
            all.insert(all.begin(), e.raw(0).id);
            return one(e.view(target, std::move(all), e.result(0)));
          },
          true};
}

Expr position(std::size_t i) {
  return Expr(static_cast<std::int64_t>(i));
}

std::vector<Argument> transposed(Expansion& e) {
  const std::size_t rank = e.raw(0).rank();
  std::vector<Expr> order;
  for (std::size_t i = 0; i < rank; ++i) {
    order.push_back(position(i));
  }
  if (rank > 1) {
    const bool named = e.has(1);
    std::swap(order[named ? e.dimension(1, rank) : 0], order[named ? e.dimension(2, rank) : 1]);
  }
  return {order};
}

std::vector<Argument> ones_of(Expansion& e) {
  std::vector<Expr> dimensions;
  for (std::size_t i = 0; i < e.raw(0).rank(); ++i) {
    if (e.raw(0).meta().sizes[i] == Expr(1)) {
      dimensions.push_back(position(i));
    }
  }
  return {dimensions};
}

Expanded unbind(Expansion& e) {
  const Term x = e.raw(0);
  std::vector<Term> results(e.result_count());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (e.wants(i)) {
      results[i] = e.view(
          "aten.select.int", {x.id, position(e.dimension(1, x.rank())), position(i)}, e.result(i));
    }
  }
  return results;
}

Expanded split(Expansion& e) {
  const Term x = e.raw(0);
  const std::size_t dimension = e.dimension(2, x.rank());
  std::vector<Term> results(e.result_count());
  Expr start = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!e.wants(i)) {
      return std::nullopt;  // Its size, and where the next one begins, is not recorded.
    }
    const Expr end = start + e.result(i).sizes[dimension];
    results[i] =
        e.view("aten.slice.Tensor", {x.id, position(dimension), start, end, Expr(1)}, e.result(i));
    start = end;
  }
  return results;
}

Expanded stack(Expansion& e) {
  const std::size_t dimension = e.dimension(1, e.result(0).sizes.size());
  std::vector<Term> parts;
  for (const Term& part : e.tensors(0)) {
    parts.push_back(unsqueeze(e.cast(part, e.result(0).dtype), dimension));
  }
  return one(cat(parts, dimension));
}

/// Row-major zeros of the result's shape, with `arguments` after the gradient.
Expanded scattered(Expansion& e, const char* target, std::size_t arguments) {
  const Term zeros = e.full(e.result(0).sizes, 0, e.result(0).dtype, e.result(0).device);
  std::vector<Argument> all = {zeros.id, e.raw(0).id};
  for (std::size_t i = 2; i < 2 + arguments; ++i) {
    all.push_back(e.argument(i));
  }
  return one(e.compute(target, std::move(all), zeros.meta()));
}

Decomposition filled(double value) {
  return {[=](Expansion& e) {
            return one(e.full(e.result(0).sizes, value, e.result(0).dtype, e.result(0).device));
          },
          true};
}

Expanded counted(Expansion& e, bool from_zero) {
  const TensorMeta& meta = e.result(0);
  const auto is_integer = [&](std::size_t i) {
    return std::holds_alternative<Expr>(e.argument(i));
  };
  if (!is_integer(0) || !(from_zero || is_integer(1))) {
    return std::nullopt;
  }
  return one(e.compute("aten.arange.start_step",
                       {from_zero ? Argument(Expr(0)) : e.argument(0),
                        from_zero ? e.argument(0) : e.argument(1),
                        Expr(1),
                        meta.dtype,
                        Layout::kStrided,
                        meta.device,
                        false},
                       meta));
}

/// The part of a matrix on one side of its diagonals.
Expanded triangle(Expansion& e, bool lower) {
  const Term x = e.raw(0);
  const auto numbers = [&](const Expr& count) {
    TensorMeta meta;
    meta.dtype = DType::kInt64;
    meta.device = x.meta().device;
    meta.sizes = {count};
    meta.strides = {1};
    return e.compute("aten.arange.start_step",
                     {Expr(0), count, Expr(1), meta.dtype, Layout::kStrided, meta.device, false},
                     meta);
  };
  const Term row = unsqueeze(numbers(x.meta().sizes[x.rank() - 2]), 1);
  const Term column = numbers(x.meta().sizes[x.rank() - 1]);
  const double offset = e.number(1);
  return one(where(lower ? column - row <= offset : column - row >= offset, x, 0));
}

Expanded roll(Expansion& e) {
  Term x = e.raw(0);
  const std::vector<Expr> shifts = e.integers(1);
  const std::vector<std::size_t> dimensions = e.dimensions(2, x.rank());
  if (e.integers(2).empty()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const Expr& size = x.meta().sizes[dimensions[i]];
    if (!size.is_constant() || !shifts[i].is_constant() || size == Expr(0)) {
      return std::nullopt;
    }
  }
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const Expr size = x.meta().sizes[dimensions[i]];
    const Expr start = mod(size - mod(shifts[i], size), size);
    x = cat(
        std::vector<Term>{slice(x, dimensions[i], start, size), slice(x, dimensions[i], 0, start)},
        dimensions[i]);
  }
  return one(x);
}

/// Channels become positions: [C * r * r, H, W] to [C, H * r, W * r], or back.
Expanded shuffle(Expansion& e, bool up) {
  const Term x = e.raw(0);
  const std::size_t batch = x.rank() - 3;
  const std::vector<Expr>& wide = up ? e.result(0).sizes : x.meta().sizes;
  const std::vector<Expr>& deep = up ? x.meta().sizes : e.result(0).sizes;
  const Expr factor = e.integer(1);
  std::vector<Expr> apart(x.meta().sizes.begin(),
                          x.meta().sizes.begin() + static_cast<std::ptrdiff_t>(batch));
  std::vector<std::size_t> order(batch);
  for (std::size_t i = 0; i < batch; ++i) {
    order[i] = i;
  }
  const std::vector<Expr> rest =
      up ? std::vector<Expr>{wide[batch], factor, factor, deep[batch + 1], deep[batch + 2]}
         : std::vector<Expr>{wide[batch], deep[batch + 1], factor, deep[batch + 2], factor};
  apart.insert(apart.end(), rest.begin(), rest.end());
  for (const std::size_t i :
       up ? std::vector<std::size_t>{0, 3, 1, 4, 2} : std::vector<std::size_t>{0, 2, 4, 1, 3}) {
    order.push_back(batch + i);
  }
  const std::vector<Expr>& sizes = e.result(0).sizes;
  const Term moved = permute(reshape(x, apart), order);
  Term result = reshape(moved, sizes);
  if (view_strides(moved.meta(), sizes)) {  // A copy, also where nothing moves.
    TensorMeta meta = result.meta();
    meta.strides = contiguous_strides(sizes);
    meta.offset = 0;
    result = e.compute("aten.clone.default", {result.id, MemoryFormat::kContiguous}, meta);
  }
  return one(result);
}

}  // namespace

void add_structure_decompositions(Decompositions& table) {
  table["aten.t.default"] = view_as("aten.permute.default", transposed);
  table["aten.transpose.int"] = view_as("aten.permute.default", transposed);
  table["aten.squeeze.default"] = view_as("aten.squeeze.dims", ones_of);
  table["aten.detach.default"] =
      view_as("aten.alias.default", [](Expansion&) { return std::vector<Argument>(); });
  for (const char* name : {"aten._unsafe_view.default", "aten._reshape_alias.default"}) {
    table[name] = view_as("aten.view.default",
                          [](Expansion& e) { return std::vector<Argument>{e.result(0).sizes}; });
  }
  table["aten.unbind.int"] = {unbind, true};
  table["aten.split.Tensor"] = {split, true};
  table["aten.stack.default"] = {stack, true};
  table["aten.select_backward.default"] = {
      [](Expansion& e) { return scattered(e, "aten.select_scatter.default", 2); }, true};
  table["aten.slice_backward.default"] = {
      [](Expansion& e) { return scattered(e, "aten.slice_scatter.default", 4); }, true};
  for (const char* name :
       {"aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default"}) {
    table[name] = filled(0);
  }
  for (const char* name :
       {"aten.ones.default", "aten.ones_like.default", "aten.new_ones.default"}) {
    table[name] = filled(1);
  }
  table["aten.new_full.default"] = {
      [](Expansion& e) {
        const TensorMeta& meta = e.result(0);
        return one(e.full_of(meta.sizes, e.argument(2), meta.dtype, meta.device));
      },
      true};
  table["aten.arange.default"] = {[](Expansion& e) { return counted(e, true); }, true};
  table["aten.arange.start"] = {[](Expansion& e) { return counted(e, false); }, true};
  table["aten.tril.default"] = {[](Expansion& e) { return triangle(e, true); }, true};
  table["aten.triu.default"] = {[](Expansion& e) { return triangle(e, false); }, true};
  table["aten.roll.default"] = {roll, true};
  table["aten.pixel_shuffle.default"] = {[](Expansion& e) { return shuffle(e, true); }, true};
  table["aten.pixel_unshuffle.default"] = {[](Expansion& e) { return shuffle(e, false); }, true};
}

}  // namespace kiln::ir
