// Lines of the sweep for operators that go through elements in order.

#include "operators.hpp"

namespace kiln::differential {
namespace {

using enum Types;
using enum Closeness;

using Sizes = std::vector<std::int64_t>;

std::vector<Line> scan_lines() {
  return {
      {"aten.cumsum.default",
       kNumbers,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kFinite);
         return Tensors{at::cumsum(x, d.dim()), at::cumsum(x + x, d.dim(), at::kDouble) * 2};
       }},
      {"aten.cumsum.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.of({2, 5, 301}, d.dtype(), Values::kFinite);
         return Tensors{at::cumsum(x, 0), at::cumsum(x, 1), at::cumsum(x, -1)};
       }},
      // Infinities and NaN stay in the total.
      {"aten.cumsum.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::cumsum(x, d.dim())};
       }},
      {"aten.cumprod.default",
       kNumbers,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kPositive);
         return Tensors{at::cumprod(x, d.dim())};
       }},
  };
}

std::vector<Line> scatter_lines() {
  return {
      {"aten.scatter.src",
       kAll,
       kExact,
       [](Draw& d) {
         // One place for each: where several meet, ATen does not say which wins.
         const at::Tensor x = d.of({4, 7, 3}, d.dtype());
         const at::Tensor source = d.of({4, 7, 3}, d.dtype());
         const at::Tensor places = d.integers({3, 7, 2}, 0, 1) + at::arange(7).view({1, 7, 1});
         const at::Tensor last = d.integers({4, 2, 3}, 0, 1) + (2 - at::arange(3));
         return Tensors{at::scatter(x, 1, places, source), at::scatter(x, -1, last, source)};
       }},
      {"aten.scatter.value",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.of({4, 7, 3}, d.dtype());
         const at::Scalar value = d.number();
         return Tensors{at::scatter(x, 0, d.integers({2, 7, 3}, 0, 4), value),
                        at::scatter(x, 2, d.integers({2, 5, 6}, 0, 3), value),
                        at::scatter(x, 1, d.integers({0, 5, 3}, 0, 3), value)};
       }},
      {"aten.scatter_add.default",
       kNumbers,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.of({4, 7, 19}, d.dtype(), Values::kFinite);
         const at::Tensor source = d.of({5, 9, 23}, d.dtype(), Values::kFinite);
         return Tensors{at::scatter_add(x, 0, d.integers({5, 7, 19}, 0, 4), source),
                        at::scatter_add(x, 1, d.integers({4, 9, 17}, 0, 7), source),
                        at::scatter_add(x, 2, d.integers({3, 7, 23}, 0, 19), source)};
       }},
      {"aten.scatter_reduce.two",
       kNumbers,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.of({3, 8}, d.dtype(), Values::kPositive);
         const at::Tensor source = d.of({4, 9}, d.dtype(), Values::kPositive);
         const at::Tensor index = d.integers({3, 9}, 0, 8);
         return Tensors{at::scatter_reduce(x, 1, index, source, "sum"),
                        at::scatter_reduce(x, 1, index, source, "prod"),
                        at::scatter_reduce(x, 1, index, source, "amax"),
                        at::scatter_reduce(x, 1, index, source, "amin"),
                        at::scatter_reduce(x, 1, index, source, "sum", false)};
       }},
      {"aten.index_add.default",
       kNumbers,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.of({4, 7, 3}, d.dtype(), Values::kFinite);
         const at::Tensor source = d.of({4, 9, 3}, d.dtype(), Values::kFinite);
         const at::Tensor index = d.integers({9}, 0, 7, d.coin() ? at::kLong : at::kInt);
         return Tensors{at::index_add(x, 1, index, source), at::index_add(x, -2, index, source, 2)};
       }},
      {"aten.index_copy.default",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.of({4, 7, 3}, d.dtype());
         const at::Tensor source = d.of({4, 5, 3}, d.dtype());
         return Tensors{at::index_copy(x, 1, 6 - at::arange(5), source)};
       }},
      {"aten.index_put.default",
       kNumbers,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.of({4, 7, 3}, d.dtype(), Values::kFinite);
         const at::Tensor i = d.integers({5}, -4, 4);
         const at::Tensor j = d.integers({2, 1}, -7, 7, d.coin() ? at::kLong : at::kInt);
         const at::Tensor rows = d.of({5, 7, 3}, d.dtype(), Values::kFinite);
         const at::Tensor cells = d.of({2, 5, 3}, d.dtype(), Values::kFinite);
         const at::Tensor one = d.of({}, d.dtype(), Values::kFinite);
         const std::optional<at::Tensor> none;
         return Tensors{at::index_put(x, {i}, rows, true),
                        at::index_put(x, {i, j}, cells, true),
                        at::index_put(x, {i, j}, one),
                        at::index_put(x, {i}, rows.slice(1, 0, 1), true),
                        at::index_put(x, {none, j}, one),
                        at::index_put(x, {x > one}, one)};
       }},
      {"aten.embedding_dense_backward.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor indices = d.integers({3, 5}, 0, 11, d.coin() ? at::kLong : at::kInt);
         const at::Tensor gradient = d.of({3, 5, 6}, d.dtype(), Values::kFinite);
         return Tensors{at::embedding_dense_backward(gradient, indices, 11, -1, false),
                        at::embedding_dense_backward(gradient, indices, 11, 4, false),
                        at::embedding_dense_backward(gradient, indices, 11, -1, true)};
       }},
  };
}

}  // namespace

std::vector<Line> sequence_lines() {
  std::vector<Line> result = scan_lines();
  const std::vector<Line> more = scatter_lines();
  result.insert(result.end(), more.begin(), more.end());
  return result;
}

}  // namespace kiln::differential
