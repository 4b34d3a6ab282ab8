// Losses and their gradients.

#include <cmath>

#include "expansion.hpp"

namespace kiln::ir {
namespace {

/// How a loss is reduced: libtorch's numbers.
enum class Reduce { kNone = 0, kMean = 1, kSum = 2 };

Reduce reduce_of(const Expansion& e, std::size_t i) {
  return static_cast<Reduce>(e.constant(e.integer(i, 1)));
}

Expanded reduced(Expansion& e, std::size_t argument, Term loss) {
  switch (reduce_of(e, argument)) {
    case Reduce::kMean: return one(mean_all(loss));
    case Reduce::kSum: return one(sum_all(loss));
    case Reduce::kNone: break;
  }
  return one(loss);
}

/// A gradient for each element of `x`, where the loss was reduced.
Term spread(Expansion& e, std::size_t argument, Term gradient, Term x) {
  return reduce_of(e, argument) == Reduce::kMean ? gradient / *count(x) : gradient;
}

/// Whether the number of elements is needed and not known.
bool lacks_count(Expansion& e, std::size_t argument, std::size_t tensor) {
  return reduce_of(e, argument) == Reduce::kMean && !count(e.raw(tensor));
}

Decomposition gradient_of(std::size_t reduction, Term (*slope)(Expansion&, Term, Term)) {
  return {[=](Expansion& e) -> Expanded {
    if (lacks_count(e, reduction, 1)) {
      return std::nullopt;
    }
    const Term x = e.tensor(1);
    return one(spread(e, reduction, e.tensor(0), x) * slope(e, x, e.tensor(2)));
  }};
}

Term smooth_l1(Expansion& e, Term x, Term target) {
  const Term distance = abs(x - target);
  const double beta = e.number(3, 1);
  return beta == 0
             ? distance
             : where(distance < beta, distance * 0.5 * distance / beta, distance - 0.5 * beta);
}

Term smooth_l1_slope(Expansion& e, Term x, Term target) {
  const Term difference = x - target;
  const double beta = e.number(4, 1);
  // NaN stays NaN, which it would not be of sign alone; with a beta of 0, 0 counts as negative.
  return where(
      abs(difference) >= beta, where(difference <= 0, -1, sign(difference)), difference / beta);
}

Term huber(Expansion& e, Term x, Term target) {
  const Term distance = abs(x - target);
  const double delta = e.number(3, 1);
  return where(distance <= delta, distance * distance * 0.5, (distance - 0.5 * delta) * delta);
}

Term bounded_log(Term logarithm) {
  return clamp(logarithm, -100, std::nullopt);
}

Expanded binary_cross_entropy(Expansion& e) {
  const Term x = e.tensor(0);
  const Term target = e.tensor(1);
  Term loss = (target - 1) * bounded_log(log1p(-x)) - target * bounded_log(log(x));
  if (e.has(2)) {
    loss = loss * e.tensor(2);
  }
  return reduced(e, 3, loss);
}

Expanded binary_cross_entropy_backward(Expansion& e) {
  if (lacks_count(e, 4, 1)) {
    return std::nullopt;
  }
  const Term x = e.tensor(1);
  Term gradient = e.tensor(0) * (x - e.tensor(2)) / clamp(x * (1 - x), 1e-12, std::nullopt);
  if (e.has(3)) {
    gradient = gradient * e.tensor(3);
  }
  return one(spread(e, 4, gradient, x));
}

Expanded binary_cross_entropy_with_logits(Expansion& e) {
  const Term x = e.tensor(0);
  const Term target = e.tensor(1);
  Term log_sigmoid = clamp(x, std::nullopt, 0) - log1p(exp(-abs(x)));
  if (e.has(3)) {
    log_sigmoid = ((e.tensor(3) - 1) * target + 1) * log_sigmoid;
  }
  Term loss = (1 - target) * x - log_sigmoid;
  if (e.has(2)) {
    loss = loss * e.tensor(2);
  }
  return reduced(e, 4, loss);
}

/// What the losses by class have in common: the classes' dimension, and targets that can be looked
/// up.
struct Classes {
  std::size_t dimension;
  Term ignored;
  Term index;                  // With the classes' dimension as 1.
  std::optional<Term> weight;  // Broadcast against the input.
};

Classes classes_of(Expansion& e, Term x, std::size_t target_at, std::size_t ignore_at) {
  const std::size_t dimension = x.rank() == 1 ? 0 : 1;
  const Term target = unsqueeze(e.raw(target_at), dimension);
  const Term ignored = target == e.number(ignore_at, -100);
  Classes classes{dimension, ignored, where(ignored, 0, target), std::nullopt};
  if (e.has(target_at + 1)) {
    std::vector<Expr> sizes(x.rank(), 1);
    sizes[dimension] = x.meta().sizes[dimension];
    classes.weight = reshape(e.tensor(target_at + 1), sizes);
  }
  return classes;
}

Term looked_up(Expansion& e, Term x, const Classes& classes) {
  TensorMeta meta = classes.index.meta();
  meta.dtype = x.meta().dtype;
  meta.strides = contiguous_strides(meta.sizes);
  return e.compute(
      "aten.gather.default",
      {x.id, Expr(static_cast<std::int64_t>(classes.dimension)), classes.index.id, false},
      meta);
}

Term expanded(Expansion& e, Term a, const std::vector<Expr>& sizes) {
  TensorMeta meta = a.meta();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    meta.strides[i] = meta.sizes[i] == sizes[i] ? meta.strides[i] : Expr(0);
  }
  meta.sizes = sizes;
  return e.view("aten.expand.default", {a.id, sizes, false}, meta);
}

Expanded nll_loss(Expansion& e) {
  const Term x = e.tensor(0);
  const Classes classes = classes_of(e, x, 1, 4);
  const DType dtype = x.meta().dtype;
  // An ignored element counts nothing, even if it or its weight is none.
  const Term weight =
      classes.weight ? where(classes.ignored,
                             0,
                             looked_up(e, expanded(e, *classes.weight, x.meta().sizes), classes))
                     : e.cast(!classes.ignored, dtype);
  const Term loss = where(classes.ignored, 0, -looked_up(e, x, classes) * weight);
  const Term none = e.full({}, 0, dtype, x.meta().device);
  switch (reduce_of(e, 3)) {
    case Reduce::kNone: return std::vector<Term>{squeeze(loss, classes.dimension), none};
    case Reduce::kSum: return std::vector<Term>{sum_all(loss), sum_all(weight)};
    case Reduce::kMean: break;
  }
  const Term total = sum_all(weight);
  return std::vector<Term>{sum_all(loss) / total, total};
}

Expanded nll_loss_backward(Expansion& e) {
  const Term x = e.tensor(1);
  const Classes classes = classes_of(e, x, 2, 5);
  Term gradient = e.tensor(0);
  const Reduce reduce = reduce_of(e, 4);
  if (reduce == Reduce::kMean) {
    gradient = gradient / e.tensor(6);
  } else if (reduce == Reduce::kNone) {
    gradient = unsqueeze(gradient, classes.dimension);
  }
  const Term zeros = e.full(x.meta().sizes, 0, x.meta().dtype, x.meta().device);
  const Term slope = e.compute(
      "aten.scatter.value",
      {zeros.id, Expr(static_cast<std::int64_t>(classes.dimension)), classes.index.id, -1.0},
      zeros.meta());
  const Term weighted = classes.weight ? slope * *classes.weight : slope;
  return one(weighted * where(classes.ignored, 0, gradient));
}

}  // namespace

void add_loss_decompositions(Decompositions& table) {
  table["aten.mse_loss.default"] = {[](Expansion& e) {
    const Term difference = e.tensor(0) - e.tensor(1);
    return reduced(e, 2, difference * difference);
  }};
  table["aten.mse_loss_backward.default"] =
      gradient_of(3, [](Expansion&, Term x, Term target) { return (x - target) * 2; });
  table["aten.smooth_l1_loss.default"] = {
      [](Expansion& e) { return reduced(e, 2, smooth_l1(e, e.tensor(0), e.tensor(1))); }};
  table["aten.smooth_l1_loss_backward.default"] = gradient_of(3, smooth_l1_slope);
  table["aten.huber_loss.default"] = {
      [](Expansion& e) { return reduced(e, 2, huber(e, e.tensor(0), e.tensor(1))); }};
  table["aten.huber_loss_backward.default"] = gradient_of(3, [](Expansion& e, Term x, Term target) {
    return clamp(x - target, -e.number(4), e.number(4));
  });
  table["aten.soft_margin_loss.default"] = {
      [](Expansion& e) { return reduced(e, 2, log1p(exp(-e.tensor(1) * e.tensor(0)))); }};
  table["aten.soft_margin_loss_backward.default"] = gradient_of(
      3, [](Expansion&, Term x, Term target) { return -target * sigmoid(-target * x); });
  table["aten.binary_cross_entropy.default"] = {binary_cross_entropy};
  table["aten.binary_cross_entropy_backward.default"] = {binary_cross_entropy_backward};
  table["aten.binary_cross_entropy_with_logits.default"] = {binary_cross_entropy_with_logits};
  for (const char* name : {"aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default"}) {
    table[name] = {nll_loss};
  }
  for (const char* name : {"aten.nll_loss_backward.default", "aten.nll_loss2d_backward.default"}) {
    table[name] = {nll_loss_backward};
  }
}

}  // namespace kiln::ir
