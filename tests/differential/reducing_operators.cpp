// Lines of the sweep for operators that combine many elements into one.

#include <limits>
#include <optional>

#include "operators.hpp"

namespace kiln::differential {
namespace {

using enum Types;
using enum Closeness;

using Sizes = std::vector<std::int64_t>;

std::vector<Line> reduction_lines() {
  return {
      {"aten.sum.default",
       kAll,
       kSum,
       [](Draw& d) { return Tensors{at::sum(d.x(Values::kFinite))}; }},
      {"aten.sum.dim_IntList",
       kAll,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kFinite);
         return Tensors{at::sum(x, d.dims(), d.coin()),
                        at::sum(x, d.dim()),
                        at::sum(x, d.dims(), false, at::kDouble)};
       }},
      {"aten.prod.default",
       kAll,
       kSum,
       [](Draw& d) { return Tensors{at::prod(d.x(Values::kPositive))}; }},
      {"aten.prod.dim_int",
       kAll,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kPositive);
         return Tensors{at::prod(x, d.dim(), d.coin())};
       }},
      {"aten.any.default", kAll, kExact, [](Draw& d) { return Tensors{at::any(d.x())}; }},
      {"aten.any.dim",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::any(x, d.dim(), d.coin())};
       }},
      {"aten.any.dims",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::any(x, d.dims(), d.coin()), at::any(x, at::OptionalIntArrayRef())};
       }},
      {"aten.all.default", kAll, kExact, [](Draw& d) { return Tensors{at::all(d.x())}; }},
      {"aten.all.dim",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::all(x, d.dim(), d.coin())};
       }},
      {"aten.all.dims",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::all(x, d.dims(), d.coin())};
       }},
      {"aten.mean.default",
       kFloats,
       kSum,
       [](Draw& d) { return Tensors{at::mean(d.x(Values::kFinite))}; }},
      {"aten.mean.dim",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kFinite);
         return Tensors{at::mean(x, d.dims(), d.coin())};
       }},
      {"aten.amax.default",
       kAll,
       kClose,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::amax(x, d.dims(), d.coin())};
       }},
      {"aten.amin.default",
       kAll,
       kClose,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::amin(x, d.dims(), d.coin())};
       }},
      {"aten.max.default", kAll, kClose, [](Draw& d) { return Tensors{at::max(d.x())}; }},
      {"aten.min.default", kAll, kClose, [](Draw& d) { return Tensors{at::min(d.x())}; }},
      {"aten.max.dim",
       kAll,
       kClose,
       [](Draw& d) {
         const at::Tensor x = d.x();
         const auto [values, indices] = at::max(x, d.dim(), d.coin());
         return Tensors{values, indices};
       }},
      {"aten.min.dim",
       kAll,
       kClose,
       [](Draw& d) {
         const at::Tensor x = d.x();
         const auto [values, indices] = at::min(x, d.dim(), d.coin());
         return Tensors{values, indices};
       }},
      {"aten.argmax.default",
       kNumbers,
       kClose,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::argmax(x), at::argmax(x, d.dim(), d.coin())};
       }},
      {"aten.argmin.default",
       kNumbers,
       kClose,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::argmin(x), at::argmin(x, d.dim(), d.coin())};
       }},
      {"aten.var.correction",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kFinite);
         return Tensors{
             at::var(x, at::OptionalIntArrayRef(), 1),
             at::var(x, d.dims(), d.below(2), d.coin()),
             at::var(d.of({3, 0}, d.dtype()), at::IntArrayRef{1}, std::optional<at::Scalar>(-1))};
       }},
      {"aten.var_mean.correction",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kFinite);
         const auto [variance, mean] = at::var_mean(x, d.dims(), d.below(2), d.coin());
         return Tensors{variance, mean};
       }},
      {"aten.linalg_vector_norm.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kFinite);
         const double infinity = std::numeric_limits<double>::infinity();
         return Tensors{
             at::linalg_vector_norm(x, 2, d.dims(), d.coin()),
             at::linalg_vector_norm(x, 1),
             at::linalg_vector_norm(x, infinity, d.dims(), d.coin()),
             at::linalg_vector_norm(x, -infinity),
             at::linalg_vector_norm(x, 0, d.dims(), d.coin()),
             at::linalg_vector_norm(x, -1.5, d.dim()),
             at::linalg_vector_norm(x, 2, d.dim(), true, at::kDouble),
             at::linalg_vector_norm(x, 3, at::OptionalIntArrayRef(), false, at::kDouble)};
       }},
      {"aten.logsumexp.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::logsumexp(x, d.dim(), d.coin())};
       }},
  };
}

std::vector<Line> normalization_lines() {
  return {
      {"aten._softmax.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::_softmax(x, d.dim(), false)};
       }},
      {"aten._log_softmax.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::_log_softmax(x, d.dim(), false)};
       }},
      {"aten._softmax_backward_data.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor gradient = d.x(Values::kFinite);
         const at::Tensor output = d.like(Values::kPositive);
         return Tensors{at::_softmax_backward_data(gradient, output, d.dim(), d.dtype())};
       }},
      {"aten._log_softmax_backward_data.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor gradient = d.x(Values::kFinite);
         const at::Tensor output = d.like(Values::kPositive) * -1;
         return Tensors{at::_log_softmax_backward_data(gradient, output, d.dim(), d.dtype())};
       }},
      {"aten.native_layer_norm.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.of({3, 4, 9}, d.dtype(), Values::kFinite);
         const Sizes shape = d.coin() ? Sizes{9} : Sizes{4, 9};
         std::optional<at::Tensor> weight;
         std::optional<at::Tensor> bias;
         if (d.coin()) {
           weight = d.of(shape, d.dtype(), Values::kFinite);
         }
         if (d.coin()) {
           bias = d.of(shape, d.dtype(), Values::kFinite);
         }
         const auto [y, mean, rstd] = at::native_layer_norm(x, shape, weight, bias, 1e-5);
         return Tensors{y, mean, rstd};
       }},
      {"aten.native_group_norm.default",
       kFloats,
       kSum,
       [](Draw& d) {
         // ATen reads it as if it were contiguous or channels last, and the others as if they were.
         at::Tensor x = d.of({2, 6, 5, 3}, d.dtype(), Values::kFinite).contiguous();
         if (d.coin()) {
           x = x.contiguous(at::MemoryFormat::ChannelsLast);
         }
         std::optional<at::Tensor> weight;
         std::optional<at::Tensor> bias;
         if (d.coin()) {
           weight = d.of({6}, d.dtype(), Values::kFinite).contiguous();
         }
         if (d.coin()) {
           bias = d.of({6}, d.dtype(), Values::kFinite).contiguous();
         }
         const std::int64_t groups = d.coin() ? 3 : (d.coin() ? 6 : 1);
         const auto [y, mean, rstd] =
             at::native_group_norm(x, weight, bias, 2, 6, 15, groups, 1e-5);
         return Tensors{y, mean, rstd};
       }},
      {"aten.native_layer_norm_backward.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor gradient = d.of({5, 17}, d.dtype(), Values::kFinite);
         const at::Tensor x = d.of({5, 17}, d.dtype(), Values::kFinite);
         // ATen reads these as if they were contiguous.
         const at::Tensor mean = d.of({5, 1}, d.dtype(), Values::kFinite).contiguous();
         const at::Tensor rstd = d.of({5, 1}, d.dtype(), Values::kPositive).contiguous();
         std::optional<at::Tensor> weight = d.of({17}, d.dtype(), Values::kFinite);
         std::optional<at::Tensor> bias = d.of({17}, d.dtype(), Values::kFinite);
         const auto [gx, gw, gb] = at::native_layer_norm_backward(
             gradient, x, {17}, mean, rstd, weight, bias, {true, true, true});
         return Tensors{gx, gw, gb};
       }},
      {"aten._native_batch_norm_legit_no_training.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.of({2, 5, 3, 4}, d.dtype(), Values::kFinite);
         const at::Tensor mean = d.of({5}, d.dtype(), Values::kFinite);
         const at::Tensor variance = d.of({5}, d.dtype(), Values::kPositive);
         std::optional<at::Tensor> weight;
         std::optional<at::Tensor> bias;
         if (d.coin()) {
           weight = d.of({5}, d.dtype(), Values::kFinite);
           bias = d.of({5}, d.dtype(), Values::kFinite);
         }
         return Tensors{std::get<0>(
             at::_native_batch_norm_legit_no_training(x, weight, bias, mean, variance, 0.1, 1e-5))};
       }},
      {"aten.native_batch_norm.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.of({2, 5, 3}, d.dtype(), Values::kFinite);
         const at::Tensor mean = d.of({5}, d.dtype(), Values::kFinite);
         const at::Tensor variance = d.of({5}, d.dtype(), Values::kPositive);
         const at::Tensor weight = d.of({5}, d.dtype(), Values::kFinite);
         const at::Tensor bias = d.of({5}, d.dtype(), Values::kFinite);
         return Tensors{
             std::get<0>(at::native_batch_norm(x, weight, bias, mean, variance, false, 0.1, 1e-5))};
       }},
  };
}

}  // namespace

std::vector<Line> reducing_lines() {
  std::vector<Line> result = reduction_lines();
  const std::vector<Line> more = normalization_lines();
  result.insert(result.end(), more.begin(), more.end());
  return result;
}

}  // namespace kiln::differential
