#include <limits>

#include "decompose_cases.hpp"

namespace kiln::capture {
namespace {

using torch::Tensor;

Tensors three(const std::tuple<Tensor, Tensor, Tensor>& results) {
  return {std::get<0>(results), std::get<1>(results), std::get<2>(results)};
}

std::vector<DecomposeCase> reduction_cases() {
  const Tensor x = torch::randn({3, 4, 5}).transpose(0, 1);
  const Tensor half = torch::randn({3, 4}).to(torch::kHalf);
  const Tensor matrix = torch::randn({3, 4});
  const Tensor vector = torch::randn({4});
  const Tensor batch = torch::randn({2, 3, 4});
  const Tensor other = torch::randn({2, 4, 5});
  const Tensor truth = torch::randn({3, 4}) > -1;
  const Tensor g = torch::randn({3, 4});
  const Tensor soft = torch::softmax(matrix, 1);
  using in = const Tensors&;
  return {
      {"aten.std.correction",
       [](in t) {
         return Tensors{at::std(t[0], at::OptionalIntArrayRef({1}), 1, false),
                        at::std(t[0], at::OptionalIntArrayRef({0, 2}), 0, true)};
       },
       {x}},
      {"aten.std_mean.correction",
       [](in t) {
         const auto [s, m] = at::std_mean(t[0], at::OptionalIntArrayRef({1}), 1, false);
         return Tensors{s, m};
       },
       {x}},
      {"aten.var_mean.correction",
       [](in t) {
         const auto [s, m] = at::var_mean(t[0], at::OptionalIntArrayRef({1}), 1, true);
         return Tensors{s, m};
       },
       {x}},
      {"aten.logsumexp.default",
       [](in t) {
         return Tensors{at::logsumexp(t[0], at::IntArrayRef({1})),
                        at::logsumexp(t[0], at::IntArrayRef({0, 2}), true)};
       },
       {x}},
      {"aten.linalg_vector_norm.default",
       [](in t) {
         Tensors all;
         for (const double order : {2.0, 1.0, 0.0, 3.5, double(INFINITY), -double(INFINITY)}) {
           all.push_back(at::linalg_vector_norm(t[0], order, at::OptionalIntArrayRef({1})));
         }
         return all;
       },
       {x}},
      {"aten.norm.Scalar", [](in t) { return Tensors{at::_ops::norm_Scalar::call(t[0], 2)}; }, {x}},
      {"aten.norm.ScalarOpt_dim", [](in t) { return Tensors{at::norm(t[0], 2, {1}, true)}; }, {x}},
      {"aten.all.default", [](in t) { return Tensors{at::all(t[0])}; }, {truth}},
      {"aten.all.dim", [](in t) { return Tensors{at::all(t[0], 1, true)}; }, {truth}},
      {"aten.all.dims",
       [](in t) { return Tensors{at::all(t[0], at::OptionalIntArrayRef({0, 1}))}; },
       {truth}},
      {"aten.aminmax.default",
       [](in t) {
         const auto [a, b] = at::aminmax(t[0], 1, true);
         const auto [c, d] = at::aminmax(t[0]);
         return Tensors{a, b, c, d};
       },
       {x}},
      {"aten.sum.default",
       [](in t) { return Tensors{at::sum(t[0]), at::sum(t[1]), at::sum(t[0], torch::kDouble)}; },
       {x, truth}},
      {"aten.dot.default", [](in t) { return Tensors{at::dot(t[0], t[0])}; }, {vector}},
      {"aten.mv.default", [](in t) { return Tensors{at::mv(t[0], t[1])}; }, {matrix, vector}},
      {"aten.addmv.default",
       [](in t) {
         return Tensors{at::addmv(t[2], t[0], t[1], 0.5, 2), at::addmv(t[2], t[0], t[1], 0, 2)};
       },
       {matrix, vector, torch::randn({3})}},
      {"aten.addr.default",
       [](in t) { return Tensors{at::addr(t[0], t[1], t[2], 0.5, 2)}; },
       {matrix, torch::randn({3}), vector}},
      {"aten.renorm.default",
       [](in t) {
         constexpr double kInfinity = std::numeric_limits<double>::infinity();
         return Tensors{at::renorm(t[0], 2, 0, 1.5),
                        at::renorm(t[0], 3, -1, 1),
                        at::renorm(t[0], kInfinity, 1, 0.5)};
       },
       {matrix}},
      {"aten.baddbmm.default",
       [](in t) { return Tensors{at::baddbmm(t[0], t[1], t[2], 0.5, 2)}; },
       {torch::randn({1, 3, 5}), batch, other}},
      {"aten.addbmm.default",
       [](in t) { return Tensors{at::addbmm(t[0], t[1], t[2], 0.5, 2)}; },
       {torch::randn({3, 5}), batch, other}},
      {"aten._softmax_backward_data.default",
       [](in t) { return Tensors{at::_softmax_backward_data(t[0], t[1], 1, torch::kFloat)}; },
       {g, soft}},
      {"aten._log_softmax_backward_data.default",
       [](in t) { return Tensors{at::_log_softmax_backward_data(t[0], t[1], 0, torch::kFloat)}; },
       {g, soft}},
      {"aten.std.correction",
       [](in t) { return Tensors{at::std(t[0], at::OptionalIntArrayRef({1}), 1, false)}; },
       {half}},
  };
}

std::vector<DecomposeCase> normalization_cases() {
  const Tensor x = torch::randn({3, 4, 5});
  const Tensor image = torch::randn({2, 6, 3, 4});
  const Tensor weight = torch::rand({6}) + 0.5;
  const Tensor bias = torch::randn({6});
  const Tensor g = torch::randn({2, 6, 3, 4});
  using in = const Tensors&;
  return {
      {"aten.native_layer_norm.default",
       [](in t) { return three(at::native_layer_norm(t[0], {4, 5}, t[1], t[2], 1e-5)); },
       {x, torch::rand({4, 5}), torch::randn({4, 5})}},
      {"aten.native_layer_norm.default",
       [](in t) { return three(at::native_layer_norm(t[0], {5}, {}, {}, 1e-5)); },
       {x.to(torch::kDouble)}},
      {"aten.native_layer_norm_backward.default",
       [](in t) {
         const auto [out, mean, rstd] = at::native_layer_norm(t[0], {5}, t[1], t[1], 1e-5);
         return three(at::native_layer_norm_backward(
             t[2], t[0], {5}, mean, rstd, t[1], t[1], {true, true, true}));
       },
       {x, torch::rand({5}), torch::randn({3, 4, 5})}},
      {"aten.native_group_norm.default",
       [](in t) { return three(at::native_group_norm(t[0], t[1], t[2], 2, 6, 12, 3, 1e-5)); },
       {image, weight, bias}},
      {"aten.native_group_norm_backward.default",
       [](in t) {
         const auto [out, mean, rstd] = at::native_group_norm(t[0], t[1], t[2], 2, 6, 12, 3, 1e-5);
         return three(at::native_group_norm_backward(
             t[3], t[0], mean, rstd, t[1], 2, 6, 12, 3, {true, true, true}));
       },
       {image, weight, bias, g}},
      {"aten._native_batch_norm_legit_functional.default",
       [](in t) {
         const auto [a, b, c, d, e] =
             at::_native_batch_norm_legit_functional(t[0], t[1], t[2], t[3], t[4], true, 0.1, 1e-5);
         return Tensors{a, b, c, d, e};
       },
       {image, weight, bias, torch::randn({6}), torch::rand({6})}},
      {"aten.native_batch_norm_backward.default",
       [](in t) {
         Tensors all = three(at::native_batch_norm_backward(
             t[0], t[1], t[2], t[3], t[4], t[3], t[4], true, 1e-5, {true, true, true}));
         const Tensors frozen = three(at::native_batch_norm_backward(
             t[0], t[1], t[2], t[3], t[4], {}, {}, false, 1e-5, {true, true, true}));
         all.insert(all.end(), frozen.begin(), frozen.end());
         return all;
       },
       {g, image, weight, torch::randn({6}), torch::rand({6}) + 0.5}},
  };
}

std::vector<DecomposeCase> structure_cases() {
  const Tensor x = torch::randn({3, 4});
  const Tensor whole = torch::arange(12).view({3, 4});
  const Tensor deep = torch::randn({2, 12, 3, 4});
  using in = const Tensors&;
  return {
      {"aten.t.default", [](in t) { return Tensors{t[0].t() + 1}; }, {x}},
      {"aten.transpose.int", [](in t) { return Tensors{t[0].transpose(1, 0) + 1}; }, {x}},
      {"aten.squeeze.default",
       [](in t) { return Tensors{t[0].squeeze() + 1}; },
       {torch::randn({1, 3, 1})}},
      {"aten.detach.default", [](in t) { return Tensors{t[0].detach() + 1}; }, {x}},
      {"aten._unsafe_view.default", [](in t) { return Tensors{t[0].t().reshape({12})}; }, {x}},
      {"aten._reshape_alias.default",
       [](in t) { return Tensors{at::_reshape_alias(t[0], {12}, {1}) + 1}; },
       {x}},
      {"aten.unbind.int",
       [](in t) {
         const Tensors all = t[0].unbind(1);
         return Tensors{all[0] + all[3]};
       },
       {x}},
      {"aten.split.Tensor",
       [](in t) {
         const Tensors all = t[0].split(3, 1);
         return Tensors{all[0] + all[1]};
       },
       {x}},
      {"aten.stack.default",
       [](in t) { return Tensors{at::stack({t[0], t[1]}, -1)}; },
       {x, x.t().contiguous().t()}},
      {"aten.select_backward.default",
       [](in t) { return Tensors{at::select_backward(t[0], {3, 4}, 0, -1)}; },
       {x.select(0, 0)}},
      {"aten.slice_backward.default",
       [](in t) { return Tensors{at::slice_backward(t[0], {3, 9}, 1, 1, 9, 2)}; },
       {x}},
      {"aten.zeros.default", [](in t) { return Tensors{at::zeros({2, 3}) + t[0].sum()}; }, {x}},
      {"aten.zeros_like.default",
       [](in t) { return Tensors{at::zeros_like(t[0]), at::zeros_like(t[0].t())}; },
       {x}},
      {"aten.new_zeros.default", [](in t) { return Tensors{t[0].new_zeros({2, 3})}; }, {whole}},
      {"aten.ones.default",
       [](in t) { return Tensors{at::ones({2, 3}, torch::kLong) + t[0].sum()}; },
       {x}},
      {"aten.ones_like.default", [](in t) { return Tensors{at::ones_like(t[0])}; }, {x}},
      {"aten.new_ones.default", [](in t) { return Tensors{t[0].new_ones({2, 3})}; }, {whole}},
      {"aten.new_full.default", [](in t) { return Tensors{t[0].new_full({2, 3}, 2.5)}; }, {x}},
      {"aten.arange.default", [](in t) { return Tensors{at::arange(4) + t[0]}; }, {x}},
      {"aten.arange.start",
       [](in t) { return Tensors{at::arange(2, 6, torch::kFloat) + t[0]}; },
       {x}},
      {"aten.tril.default",
       [](in t) { return Tensors{at::tril(t[0]), at::tril(t[1], -1)}; },
       {x, whole}},
      {"aten.triu.default", [](in t) { return Tensors{at::triu(t[0], 1)}; }, {x}},
      {"aten.roll.default",
       [](in t) { return Tensors{at::roll(t[0], {1, -2}, {0, 1}), at::roll(t[0], {5}, {1})}; },
       {x}},
      {"aten.pixel_shuffle.default",
       [](in t) { return Tensors{at::pixel_shuffle(t[0], 2)}; },
       {deep}},
      {"aten.pixel_unshuffle.default",
       [](in t) { return Tensors{at::pixel_unshuffle(t[0], 2)}; },
       {torch::randn({2, 3, 4, 6})}},
  };
}

}  // namespace

std::vector<DecomposeCase> shape_cases() {
  std::vector<DecomposeCase> all = reduction_cases();
  for (const auto& more : {normalization_cases(), structure_cases()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace kiln::capture
