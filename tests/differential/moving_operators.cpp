// Lines of the sweep for operators that make elements or move them.

#include "operators.hpp"

namespace kiln::differential {
namespace {

using enum Types;
using enum Closeness;

using Sizes = std::vector<std::int64_t>;

// A view by itself, and read by a kernel.
Tensors seen(const at::Tensor& view) {
  return {view, view + view};
}

Tensors seen(const Tensors& views) {
  Tensors result = views;
  for (const at::Tensor& view : views) {
    result.push_back(view + view);
  }
  return result;
}

std::int64_t rank(const at::Tensor& x) {
  return x.dim();
}

std::vector<Line> creation_lines() {
  return {
      {"aten.full.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{at::full(d.sizes(), d.number(), d.dtype())}; }},
      {"aten.full_like.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{at::full_like(d.x(), d.number())}; }},
      {"aten.new_full.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{d.x().new_full({3, 2}, d.number())}; }},
      {"aten.fill.Scalar",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{at::fill(d.x(), d.number())}; }},
      {"aten.fill.Tensor",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::fill(x, d.of({}, d.dtype()))};
       }},
      {"aten.scalar_tensor.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{at::scalar_tensor(d.number(), d.dtype())}; }},
      {"aten.zeros.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{at::zeros(d.sizes(), d.dtype())}; }},
      {"aten.zeros_like.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{at::zeros_like(d.x())}; }},
      {"aten.new_zeros.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{d.x().new_zeros({4})}; }},
      {"aten.zero.default", kAll, kExact, [](Draw& d) { return Tensors{at::zero(d.x())}; }},
      {"aten.ones.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{at::ones(d.sizes(), d.dtype())}; }},
      {"aten.ones_like.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{at::ones_like(d.x())}; }},
      {"aten.new_ones.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{d.x().new_ones({2, 1})}; }},
      {"aten.arange.default",
       kNumbers,
       kExact,
       [](Draw& d) { return Tensors{at::arange(d.below(40), d.dtype())}; }},
      {"aten.arange.start",
       kNumbers,
       kExact,
       [](Draw& d) { return Tensors{at::arange(2, 2 + d.below(40), d.dtype())}; }},
      {"aten.arange.start_step",
       kNumbers,
       kExact,
       [](Draw& d) {
         at::Tensor out = at::empty({5}, d.dtype());
         at::arange_out(out, 0, 10, 2);
         return Tensors{at::arange(50, 3, -1 - d.below(4), d.dtype()), out};
       }},
      {"aten.arange.start_step",
       kFloats,
       kSum,
       [](Draw& d) {
         return Tensors{at::arange(-1.7, 3.1, 0.1, d.dtype()), at::arange(0.3, 97, 0.7, d.dtype())};
       }},
      {"aten.linspace.default",
       kFloats,
       kSum,
       [](Draw& d) {
         // Narrower ones are ATen's.
         const at::ScalarType type = d.dtype() == at::kDouble ? at::kDouble : at::kFloat;
         const at::Tensor even = at::linspace(-1, 1, 1000, at::kFloat);
         return Tensors{at::linspace(-3, 2.5, 1 + d.below(40), type),
                        at::linspace(7, 7.5, 1, type),
                        at::linspace(1e4, -1e4, 1000, type),
                        at::linspace(0, 1, 0, type),
                        // The same from either end.
                        (even + even.flip(0)) * 1e6};
       }},
      {"aten.eye.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{at::eye(d.below(20), d.dtype())}; }},
      {"aten.eye.m",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{at::eye(5, d.below(20), d.dtype())}; }},
      {"aten.copy.default",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kFinite);
         return Tensors{at::copy(x, d.other(Values::kFinite))};
       }},
  };
}

std::vector<Line> view_lines() {
  return {
      {"aten.alias.default", kAll, kExact, [](Draw& d) { return seen(at::alias(d.x())); }},
      {"aten.detach.default", kAll, kExact, [](Draw& d) { return seen(at::detach(d.x())); }},
      {"aten.lift.default", kAll, kExact, [](Draw& d) { return seen(at::lift(d.x())); }},
      {"aten.lift_fresh.default",
       kAll,
       kExact,
       [](Draw& d) { return seen(at::lift_fresh(d.x())); }},
      {"aten.lift_fresh_copy.default",
       kAll,
       kExact,
       [](Draw& d) { return seen(at::lift_fresh_copy(d.x())); }},
      {"aten.view.default",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.of({4, 6, 5}, d.dtype()).contiguous();
         Tensors views = {x.view({24, 5}), x.view({2, 2, 30}), x.view({-1}), x.view({8, 15})};
         views.push_back(x.view({3, 40}).t());
         return seen(views);
       }},
      {"aten._unsafe_view.default",
       kAll,
       kExact,
       [](Draw& d) {
         return seen(at::_unsafe_view(d.of({6, 4}, d.dtype()).contiguous(), {2, 12}));
       }},
      {"aten._reshape_alias.default",
       kAll,
       kExact,
       [](Draw& d) {
         return seen(at::_reshape_alias(d.of({6, 4}, d.dtype()).contiguous(), {8, 3}, {3, 1}));
       }},
      {"aten.view_copy.default",
       kAll,
       kExact,
       [](Draw& d) { return seen(at::view_copy(d.of({6, 4}, d.dtype()).contiguous(), {3, 8})); }},
      {"aten.permute.default",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         Sizes order(static_cast<std::size_t>(rank(x)));
         for (std::int64_t i = 0; i < rank(x); ++i) {
           order[static_cast<std::size_t>(i)] = i % 2 == 0 ? rank(x) - 1 - i : -i - 1;
         }
         for (std::size_t i = 0; i < order.size(); ++i) {
           order[i] = static_cast<std::int64_t>(order.size() - 1 - i) -
                      (d.coin() ? static_cast<std::int64_t>(order.size()) : 0);
         }
         return seen(x.permute(order));
       }},
      {"aten.transpose.int",
       kAll,
       kExact,
       [](Draw& d) {
         const std::int64_t dim = d.dim();
         return seen(at::transpose(d.x(), dim, d.dim()));
       }},
      {"aten.t.default",
       kAll,
       kExact,
       [](Draw& d) {
         return seen(Tensors{at::t(d.of({7, 5}, d.dtype())), at::t(d.of({3}, d.dtype()))});
       }},
      {"aten.expand.default",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.narrower(d.dtype());
         Sizes sizes = d.sizes();
         sizes.insert(sizes.begin(), 2);
         return seen(x.expand(sizes));
       }},
      {"aten.unsqueeze.default",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return seen(Tensors{x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(d.below(rank(x) + 1))});
       }},
      {"aten.squeeze.default", kAll, kExact, [](Draw& d) { return seen(at::squeeze(d.x())); }},
      {"aten.squeeze.dim",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return seen(at::squeeze(x, d.dim()));
       }},
      {"aten.squeeze.dims",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return seen(at::squeeze(x, d.dims()));
       }},
      {"aten.slice.Tensor",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         const std::int64_t dim = d.dim();
         const std::int64_t start = d.below(9) - 4;
         const std::int64_t end = d.below(9) - 3;
         return seen(Tensors{x.slice(dim, start, end, 1 + d.below(3)),
                             x.slice(dim, 1),
                             x.slice(dim, std::nullopt, -1),
                             x.slice(dim, -2, std::nullopt),
                             x.slice(dim, 0, 100, 2)});
       }},
      {"aten.select.int",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         const std::int64_t dim = d.dim();
         return seen(Tensors{at::select(x, dim, 0), at::select(x, dim, -1)});
       }},
      {"aten.unbind.int",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.of({3, 4, 2}, d.dtype());
         return seen(at::unbind(x, d.below(6) - 3));
       }},
      {"aten.split.Tensor",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return seen(at::split(x, 1 + d.below(4), d.dim()));
       }},
      {"aten.split_with_sizes.default",
       kAll,
       kExact,
       [](Draw& d) {
         return seen(at::split_with_sizes(d.of({4, 9}, d.dtype()), {2, 0, 3, 4}, -1));
       }},
      {"aten.as_strided.default",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.of({5, 8}, d.dtype()).clone(at::MemoryFormat::Contiguous);
         const at::Tensor gaps = d.of({5, 8}, d.dtype());  // Or none, or one row over and over.
         // What the views show is not all that is seen through them.
         const at::Tensor made = x.clone(), rows = made.slice(0, 2), every = made.slice(1, 1, 8, 2);
         return seen(Tensors{
             at::as_strided(x, {3, 4}, {9, 2}, 1),
             at::as_strided(x, {6, 3}, {1, 1}),
             at::as_strided(x, {2, 2}, {0, 5}, 7),
             at::as_strided(gaps, {2, 2}, {3, 2}),
             at::as_strided(x.slice(0, 2), {2, 2}, {2, 1}, 3),
             at::as_strided(rows, {2, 2}, {20, 3}, 1),
             at::as_strided(every, {2, 2}, {3, 2}, 1),
             at::as_strided(every, {2, 2}, {3, 2}),
             at::as_strided_copy(rows, {3}, {2}, 5),
             at::as_strided_scatter(rows, x.slice(0, 0, 1).slice(1, 0, 3), {1, 3}, {1, 2}, 18)});
       }},
      {"aten.flip.default",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::flip(x, d.dims())};
       }},
      {"aten.cat.default",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         const at::Tensor y = d.of(d.sizes(), d.coin() ? d.dtype() : at::kFloat);
         const std::int64_t dim = d.dim();
         return Tensors{at::cat({x, y, x}, dim), at::cat({x}, dim)};
       }},
      {"aten.cat.default",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor empty = d.of({0}, d.dtype());
         const at::Tensor x = d.of({3, 2, 5}, d.dtype());
         const at::Tensor y = d.of({3, 4, 5}, d.dtype());
         return Tensors{at::cat({x, empty, y}, 1),
                        at::cat({x.slice(1, 0, 0), y, x, y}, -2),
                        at::cat({y.slice(2, 1, 4, 2), x.slice(2, 3, 5)}, 1)};
       }},
      {"aten.select_scatter.default",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.of({4, 5, 6}, d.dtype());
         const at::Tensor source = d.of({4, 6}, d.dtype());
         return Tensors{at::select_scatter(x, source, 1, d.below(10) - 5),
                        at::select_scatter(x, source, 1, 0)};
       }},
      {"aten.slice_scatter.default",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.of({4, 9, 3}, d.dtype());
         const at::Tensor part = d.of({4, 3, 3}, d.dtype());
         return Tensors{at::slice_scatter(x, part, 1, 2, 5),
                        at::slice_scatter(x, part, 1, 1, 8, 3),
                        at::slice_scatter(x, part, -2, -5, 100, 2),
                        at::slice_scatter(x, part.slice(1, 0, 0), 1, 9, 9)};
       }},
      {"aten.constant_pad_nd.default",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.of({4, 5, 6}, d.dtype());
         const at::Scalar value = d.number();
         return Tensors{at::constant_pad_nd(x, {1, 2}, value),
                        at::constant_pad_nd(x, {-1, 3, 2, -2}, value),
                        at::constant_pad_nd(x, {0, 1, 1, 0, 2, 1})};
       }},
  };
}

std::vector<Line> window_lines() {
  return {
      {"aten.avg_pool2d.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.of({2, 3, 9, 8}, d.dtype());
         return Tensors{at::avg_pool2d(x, 2),
                        at::avg_pool2d(x, {3, 2}, {1, 2}),
                        at::avg_pool2d(x, 2, 2, 0, true),
                        at::avg_pool2d(x, 2, 1, 1),
                        at::avg_pool2d(x, 5)};
       }},
      {"aten.max_pool2d_with_indices.default",
       kFloats,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.of({2, 3, 9, 20}, d.dtype());
         return Tensors{std::get<0>(at::max_pool2d_with_indices(x, 2)),
                        std::get<0>(at::max_pool2d_with_indices(x, 3, 2, 1)),
                        std::get<0>(at::max_pool2d_with_indices(x, {2, 3}, {1, 2}, 1, {2, 1})),
                        std::get<0>(at::max_pool2d_with_indices(x[0], 3, 2, 1)),
                        std::get<1>(at::max_pool2d_with_indices(x, 3, 2, 1))};
       }},
      {"aten.upsample_nearest2d.default",
       kFloats,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.of({2, 3, 5, 6}, d.dtype());
         const at::Tensor last = x.contiguous(at::MemoryFormat::ChannelsLast);
         return Tensors{at::upsample_nearest2d(last, {10, 18}),
                        at::upsample_nearest2d(last, {10, 12}, 2.0, 2.0),
                        at::upsample_nearest2d(x, {10, 18}),
                        at::upsample_nearest2d(x, {7, 9}),
                        at::upsample_nearest2d(x, {10, 12}, 2.0, 2.0),
                        at::upsample_nearest2d(x, {10, 12}, 2.1, 2.1),
                        // ATen shows a pixel 42 times, and the next one 40 times.
                        at::upsample_nearest2d(x, {205, 12}),
                        at::upsample_nearest2d(last, {205, 18}, 41.0, 3.0)};
       }},
  };
}

std::vector<Line> gather_lines() {
  return {
      {"aten.embedding.default",
       kFloats,
       kExact,
       [](Draw& d) {
         const at::Tensor weight = d.of({11, 6}, d.dtype());
         const at::Tensor indices = d.integers(d.sizes(), 0, 11, d.coin() ? at::kLong : at::kInt);
         return Tensors{at::embedding(weight, indices)};
       }},
      {"aten.index_select.default",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.of({4, 7, 3}, d.dtype());
         const std::int64_t dim = d.below(3);
         const at::Tensor index =
             d.integers(d.coin() ? Sizes{5} : Sizes{}, 0, 3, d.coin() ? at::kLong : at::kInt);
         return Tensors{at::index_select(x, dim, index)};
       }},
      {"aten.gather.default",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.of({4, 7, 3}, d.dtype());
         const std::int64_t dim = d.below(3) - (d.coin() ? 3 : 0);
         return Tensors{at::gather(x, dim, d.integers({3, 6, 2}, 0, 3))};
       }},
      {"aten.index.Tensor",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.of({4, 7, 3}, d.dtype());
         const at::Tensor i = d.integers({5}, -4, 4);
         const at::Tensor j = d.integers({2, 1}, -7, 7, d.coin() ? at::kLong : at::kInt);
         const std::optional<at::Tensor> none;
         return Tensors{at::index(x, {i}),
                        at::index(x, {i, j}),
                        at::index(x, {none, j}),
                        at::index(x, {none, d.integers({5}, -7, 7), d.integers({2, 1}, -3, 3)}),
                        at::index(x, {i, none, d.integers({}, -3, 3)})};
       }},
  };
}
}  // namespace

std::vector<Line> moving_lines() {
  std::vector<Line> result;
  for (const auto& lines : {creation_lines(), view_lines(), window_lines(), gather_lines()}) {
    result.insert(result.end(), lines.begin(), lines.end());
  }
  return result;
}

}  // namespace kiln::differential
