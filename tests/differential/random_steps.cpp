#include "random_steps.hpp"

#include <stdexcept>

namespace kiln::differential {
namespace {

// A step on its way: its operands, and numbers that follow from its seed.
struct Call {
  const at::Tensor& a;
  const at::Tensor& b;
  const at::Tensor& c;
  std::mt19937_64 random;

  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
  }
  bool coin() { return below(2) == 1; }
  // A dim of `x`, which must have one.
  std::int64_t dim(const at::Tensor& x) {
    TORCH_CHECK(x.dim() > 0, "no dims");
    return below(x.dim());
  }
  // Not near any number that comes up by itself.
  double number() { return 0.3137 + 0.25 * static_cast<double>(below(5)); }
};

using Apply = at::Tensor (*)(Call&);

at::Tensor floating(const at::Tensor& x) {
  return at::isFloatingType(x.scalar_type()) ? x : x.to(at::kDouble);
}

at::Tensor mask_of(const at::Tensor& x) {
  return x.scalar_type() == at::kBool ? x : floating(x) > 0.3137;
}

// A window of `x` along one dim, through which steps write.
at::Tensor window(Call& call, const at::Tensor& x) {
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    TORCH_CHECK(x.stride(i) != 0 || x.size(i) == 1, "elements repeat");
  }
  if (x.dim() == 0) {
    return x;
  }
  const std::int64_t dim = call.dim(x);
  switch (call.below(4)) {
    case 0:
      TORCH_CHECK(x.size(dim) > 0, "there is nothing to choose from");
      return x.select(dim, call.below(x.size(dim)));
    case 1: return x.slice(dim, call.below(2), x.size(dim), 1 + call.below(2));
    case 2: return x.transpose(dim, 0);
    default: return x;
  }
}

const Apply kPointwise[] = {
    [](Call& s) { return -floating(s.a); },
    [](Call& s) { return at::tanh(floating(s.a)); },
    [](Call& s) { return at::sigmoid(floating(s.a)); },
    [](Call& s) { return at::exp(-at::abs(floating(s.a))); },
    [](Call& s) { return at::relu(s.a); },
    [](Call& s) { return at::gelu(floating(s.a), s.coin() ? "tanh" : "none"); },
    [](Call& s) { return at::reciprocal(at::abs(floating(s.a)) + 1); },
    [](Call& s) { return at::clamp(s.a, -s.number(), s.number()); },
    [](Call& s) { return s.a + s.b; },
    [](Call& s) { return at::sub(s.a, s.b, 2); },
    [](Call& s) { return s.a * s.b; },
    [](Call& s) { return at::maximum(s.a, s.b); },
    [](Call& s) { return s.a * s.number(); },
    [](Call& s) { return at::where(mask_of(s.a), s.b, s.c); },
    [](Call& s) { return at::addcmul(floating(s.a), floating(s.b), floating(s.c), 0.5); },
    [](Call& s) { return mask_of(s.a) & mask_of(s.b); },
    [](Call& s) { return ~mask_of(s.a); },
    [](Call& s) { return s.a.to(s.coin() ? at::kFloat : at::kDouble); },
    [](Call& s) { return s.a.clone(); },
};

const Apply kReductions[] = {
    [](Call& s) { return at::sum(s.a, s.dim(s.a), s.coin()); },
    [](Call& s) { return at::sum(s.a); },
    [](Call& s) { return at::mean(floating(s.a), s.dim(s.a), s.coin()); },
    [](Call& s) { return at::amax(s.a, s.dim(s.a), s.coin()); },
    [](Call& s) {
      TORCH_CHECK(s.a.numel() > 0);
      return at::var(floating(s.a), s.dim(s.a), false, s.coin());
    },
    [](Call& s) { return at::any(mask_of(s.a), s.dim(s.a), s.coin()); },
    [](Call& s) { return at::logsumexp(floating(s.a), s.dim(s.a), s.coin()); },
    [](Call& s) { return at::softmax(floating(s.a), s.dim(s.a)); },
    [](Call& s) { return at::log_softmax(floating(s.a), s.dim(s.a)); },
    [](Call& s) {
      TORCH_CHECK(s.a.dim() > 0 && s.a.size(-1) > 2);
      return at::layer_norm(floating(s.a), {s.a.size(-1)});
    },
    [](Call& s) { return at::cumsum(s.a, s.dim(s.a)); },
    [](Call& s) {
      const std::int64_t dim = s.dim(s.a);
      TORCH_CHECK(s.a.size(dim) >= 2 && s.a.scalar_type() != at::kBool);
      const at::Tensor places =
          at::arange(s.a.size(dim), s.a.options().dtype(at::kLong)).remainder(2);
      return at::index_add(s.a, dim, places, s.a);
    },
    [](Call& s) {
      const std::int64_t dim = s.dim(s.a);
      TORCH_CHECK(s.a.numel() > 0 && s.b.scalar_type() == at::kLong);
      const at::Tensor x = floating(s.a);
      const at::Tensor places = s.b.clamp(0, x.size(dim) - 1).expand_as(x);
      return at::scatter_add(x, dim, places, x);
    },
    [](Call& s) {
      const at::Tensor x = floating(s.a);
      const at::Tensor y = floating(s.b).to(x.scalar_type());
      TORCH_CHECK(x.dim() > 0 && y.dim() > 0 && x.size(-1) == y.size(-1));
      return at::tanh(at::mm(x.reshape({-1, x.size(-1)}), y.reshape({-1, y.size(-1)}).t()));
    },
};

const Apply kMoves[] = {
    [](Call& s) { return s.a.transpose(s.dim(s.a), s.dim(s.a)); },
    [](Call& s) { return s.a.permute(s.a.dim() == 3 ? at::IntArrayRef({2, 0, 1}) : s.a.sizes()); },
    [](Call& s) { return s.a.slice(s.dim(s.a), s.below(2), s.below(7) - 2, 1 + s.below(2)); },
    [](Call& s) { return s.a.select(s.dim(s.a), 0); },
    [](Call& s) { return s.a.unsqueeze(s.below(s.a.dim() + 1)); },
    [](Call& s) { return s.a.squeeze(); },
    [](Call& s) { return s.a.reshape({-1}); },
    [](Call& s) { return s.a.flatten(0, std::min<std::int64_t>(1, s.a.dim() - 1)); },
    [](Call& s) { return s.a.expand_as(s.b); },
    [](Call& s) { return at::flip(s.a, {s.dim(s.a)}); },
    [](Call& s) { return at::cat({s.a, s.b.to(s.a.scalar_type())}, s.dim(s.a)); },
    [](Call& s) { return at::stack({s.a, s.a}, s.below(s.a.dim() + 1)); },
    [](Call& s) { return at::constant_pad_nd(s.a, {1, s.below(3)}, 0.5); },
    [](Call& s) {
      const std::int64_t dim = s.dim(s.a);
      TORCH_CHECK(s.a.size(dim) >= 2 && s.b.scalar_type() == at::kLong);
      return at::index_select(s.a, dim, s.b.reshape({-1}).clamp(0, 1));
    },
    [](Call& s) {
      TORCH_CHECK(s.a.dim() > 0 && s.a.size(0) >= 2 && s.b.scalar_type() == at::kLong);
      return at::index(s.a, {s.b.clamp(-1, 1)});
    },
    [](Call& s) { return at::split(s.a, 2, s.dim(s.a)).back(); },
};

// Steps that write: into a value, or into part of it.
const Apply kWrites[] = {
    [](Call& s) { return window(s, s.a).add_(s.b, 0.5); },
    [](Call& s) { return window(s, s.a).mul_(s.number()); },
    [](Call& s) { return window(s, s.a).copy_(s.b); },
    [](Call& s) { return window(s, s.a).fill_(s.number()); },
    [](Call& s) { return window(s, s.a).clamp_(-1, 1); },
    [](Call& s) { return window(s, s.a).masked_fill_(mask_of(s.b), 0.25); },
};

std::vector<Apply> all_steps() {
  std::vector<Apply> result(std::begin(kPointwise), std::end(kPointwise));
  result.insert(result.end(), std::begin(kReductions), std::end(kReductions));
  result.insert(result.end(), std::begin(kMoves), std::end(kMoves));
  result.insert(result.end(), std::begin(kWrites), std::end(kWrites));
  return result;
}

const std::vector<Apply>& table() {
  static const std::vector<Apply> steps = all_steps();
  return steps;
}

}  // namespace

std::size_t step_count() {
  return table().size();
}

Tensors run_steps(const std::vector<Step>& steps, Tensors inputs) {
  Tensors values = std::move(inputs);
  for (const Step& step : steps) {
    Call call{values.at(step.operands[0]),
              values.at(step.operands[1]),
              values.at(step.operands[2]),
              std::mt19937_64(step.seed)};
    at::Tensor result = table()[step.op](call);
    values.push_back(std::move(result));
  }
  return values;
}

}  // namespace kiln::differential
