#include "decompose_cases.hpp"

namespace kiln::capture {
namespace {

using torch::Tensor;

/// `call` with each of the three ways to reduce a loss.
template <class Call>
std::function<Tensors(const Tensors&)> each_reduction(Call call) {
  return [call](const Tensors& in) {
    Tensors results;
    for (const at::Reduction::Reduction reduction :
         {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum}) {
      results.push_back(call(in, reduction));
    }
    return results;
  };
}

/// A gradient for each of them: `in[0]` for every element, its first one for a reduced loss.
template <class Call>
std::function<Tensors(const Tensors&)> each_gradient(Call call) {
  return each_reduction([call](const Tensors& in, std::int64_t reduction) {
    return call(
        reduction == at::Reduction::None ? in[0] : in[0].select(0, 0).select(0, 0), in, reduction);
  });
}

}  // namespace

std::vector<DecomposeCase> loss_cases() {
  const Tensor x = torch::randn({4, 6}) * 2;
  const Tensor y = torch::randn({4, 6});
  const Tensor g = torch::randn({4, 6});
  const Tensor p = torch::rand({4, 6}) * 0.98 + 0.01;
  const Tensor q = torch::rand({4, 6});
  const Tensor signs = torch::randn({4, 6}).sign();
  const Tensor scores = torch::log_softmax(x, 1);
  const Tensor classes = torch::tensor({2, -100, 5, 0}, torch::kLong);
  const Tensor weight = torch::rand({6}) + 0.5;
  const Tensor image = torch::log_softmax(torch::randn({2, 3, 4, 5}), 1);
  const Tensor pixels = torch::randint(0, 3, {2, 4, 5}, torch::kLong);
  const Tensor none;
  using in = const Tensors&;
  const auto nll = [](in t, std::int64_t reduction) {
    const auto [loss, total] = at::nll_loss_forward(t[0], t[1], t[2], reduction, -100);
    return reduction == at::Reduction::None ? loss : at::stack({loss, total});
  };
  return {
      {"aten.mse_loss.default",
       each_reduction([](in t, std::int64_t r) { return at::mse_loss(t[0], t[1], r); }),
       {x, y}},
      {"aten.mse_loss.default",
       each_reduction([](in t, std::int64_t r) { return at::mse_loss(t[0], t[1], r); }),
       {x.to(torch::kBFloat16), y.to(torch::kBFloat16)}},
      {"aten.mse_loss_backward.default",
       each_gradient([](const Tensor& g_, in t, std::int64_t r) {
         return at::mse_loss_backward(g_, t[1], t[2], r);
       }),
       {g, x, y}},
      {"aten.smooth_l1_loss.default",
       each_reduction([](in t, std::int64_t r) {
         return at::smooth_l1_loss(t[0], t[1], r, 0.7) + at::smooth_l1_loss(t[0], t[1], r, 0);
       }),
       {x, y}},
      {"aten.smooth_l1_loss_backward.default",
       each_gradient([](const Tensor& g_, in t, std::int64_t r) {
         return at::smooth_l1_loss_backward(g_, t[1], t[2], r, 0.7);
       }),
       {g, x, y}},
      {"aten.huber_loss.default",
       each_reduction([](in t, std::int64_t r) { return at::huber_loss(t[0], t[1], r, 0.7); }),
       {x, y}},
      {"aten.huber_loss_backward.default",
       each_gradient([](const Tensor& g_, in t, std::int64_t r) {
         return at::huber_loss_backward(g_, t[1], t[2], r, 0.7);
       }),
       {g, x, y}},
      {"aten.soft_margin_loss.default",
       each_reduction([](in t, std::int64_t r) { return at::soft_margin_loss(t[0], t[1], r); }),
       {x, signs}},
      {"aten.soft_margin_loss_backward.default",
       each_gradient([](const Tensor& g_, in t, std::int64_t r) {
         return at::soft_margin_loss_backward(g_, t[1], t[2], r);
       }),
       {g, x, signs}},
      {"aten.binary_cross_entropy.default",
       each_reduction([](in t, std::int64_t r) {
         return at::binary_cross_entropy(t[0], t[1], {}, r) +
                at::binary_cross_entropy(t[0], t[1], t[2], r);
       }),
       {p, q, weight}},
      {"aten.binary_cross_entropy_backward.default",
       each_gradient([](const Tensor& g_, in t, std::int64_t r) {
         return at::binary_cross_entropy_backward(g_, t[1], t[2], {}, r) +
                at::binary_cross_entropy_backward(g_, t[1], t[2], t[3], r);
       }),
       {g, p, q, weight.expand({4, 6})}},
      {"aten.binary_cross_entropy_with_logits.default",
       each_reduction([](in t, std::int64_t r) {
         return at::binary_cross_entropy_with_logits(t[0], t[1], {}, {}, r) +
                at::binary_cross_entropy_with_logits(t[0], t[1], t[2], t[2], r);
       }),
       {x, q, weight}},
      {"aten.nll_loss_forward.default", each_reduction(nll), {scores, classes, none}},
      {"aten.nll_loss_forward.default", each_reduction(nll), {scores, classes, weight}},
      {"aten.nll_loss_forward.default",
       each_reduction(nll),
       {scores.select(0, 0), torch::tensor(3, torch::kLong), weight}},
      {"aten.nll_loss_backward.default",
       each_reduction([](in t, std::int64_t r) {
         return at::nll_loss_backward(r == at::Reduction::None ? t[3] : t[3].select(0, 0),
                                      t[0],
                                      t[1],
                                      t[2],
                                      r,
                                      -100,
                                      at::full({}, 2.5));
       }),
       {scores, classes, weight, g.select(1, 0)}},
      {"aten.nll_loss2d_forward.default",
       each_reduction([](in t, std::int64_t r) {
         return std::get<0>(at::nll_loss2d_forward(t[0], t[1], {}, r, -100));
       }),
       {image, pixels}},
      {"aten.nll_loss2d_backward.default",
       each_reduction([](in t, std::int64_t r) {
         return at::nll_loss2d_backward(
             r == at::Reduction::None ? t[2] : t[2].select(0, 0).select(0, 0).select(0, 0),
             t[0],
             t[1],
             {},
             r,
             -100,
             at::full({}, 40.0));
       }),
       {image, pixels, torch::randn({2, 4, 5})}},
  };
}

}  // namespace kiln::capture
