// Layer, group and batch norm, and their gradients.

#include "expansion.hpp"

namespace kiln::ir {
namespace {

using Sizes = std::vector<Expr>;
using List = std::vector<std::size_t>;

/// `count` dimensions from `first` on.
List range(std::size_t first, std::size_t count) {
  List dimensions(count);
  for (std::size_t i = 0; i < count; ++i) {
    dimensions[i] = first + i;
  }
  return dimensions;
}

/// Deviation from the mean and one over the standard deviation.
struct Moments {
  Term mean, rstd, normal;
};

Moments moments(Term x, const List& dimensions, double epsilon) {
  const Term average = mean(x, dimensions, true);
  const Term centred = x - average;
  const Term rstd = rsqrt(mean(centred * centred, dimensions, true) + epsilon);
  return {average, rstd, centred * rstd};
}

/// Mean and variance of what may have a large mean. What was rounded in the mean is that of the
/// differences from it, which would be 0.
struct Statistics {
  Term mean, variance;
};

Statistics statistics(Term x, const List& dimensions) {
  const Term rounded = mean(x, dimensions, true);
  const Term centred = x - rounded;
  const Term rest = mean(centred, dimensions, true);
  const Term squares = mean(centred * centred, dimensions, true);
  return {rounded + rest, apply("relu", squares - rest * rest)};
}

/// The gradient of what was normalized over `dimensions`, from that of the normal values.
Term gradient_of_input(Term gradient, Term normal, Term rstd, const List& dimensions) {
  const Term along = normal * mean(gradient * normal, dimensions, true);
  return (gradient - mean(gradient, dimensions, true) - along) * rstd;
}

/// A vector of `size` along `dimension` of `rank`.
Term along(Term vector, std::size_t dimension, std::size_t rank) {
  Sizes sizes(rank, 1);
  sizes[dimension] = vector.meta().sizes[0];
  return reshape(vector, sizes);
}

Expanded layer_norm(Expansion& e) {
  const Term x = e.tensor(0);
  const std::size_t inner = e.integers(1).size();
  const Moments m = moments(x, range(x.rank() - inner, inner), e.number(4));
  Term out = m.normal;
  out = e.has(2) ? out * e.tensor(2) : out;
  out = e.has(3) ? out + e.tensor(3) : out;
  return std::vector<Term>{out, m.mean, m.rstd};
}

Expanded layer_norm_backward(Expansion& e) {
  const Term gradient = e.tensor(0);
  const Term x = e.tensor(1);
  const std::size_t inner = e.integers(2).size();
  const std::size_t outer = x.rank() - inner;
  const Term rstd = e.tensor(4);
  const Term normal = (x - e.tensor(3)) * rstd;
  const Term scaled = e.has(5) ? gradient * e.tensor(5) : gradient;
  std::vector<Term> results(3);
  results[0] = e.wants(0) ? gradient_of_input(scaled, normal, rstd, range(outer, inner)) : Term();
  const auto summed = [&](Term term) {
    return outer == 0 ? term : sum(term, range(0, outer), false);
  };
  results[1] = e.wants(1) ? summed(gradient * normal) : Term();
  results[2] = e.wants(2) ? summed(gradient) : Term();
  return results;
}

/// x as [N, groups, channels of a group, positions].
struct Groups {
  Sizes sizes;
  Expr channels;
};

Groups groups_of(Expansion& e, std::size_t n) {
  const Expr groups = e.integer(n + 3);
  return {{e.integer(n), groups, floor_div(e.integer(n + 1), groups), e.integer(n + 2)},
          e.integer(n + 1)};
}

Expanded group_norm(Expansion& e) {
  const Term x = e.tensor(0);
  const Groups groups = groups_of(e, 3);
  const Moments m = moments(reshape(x, groups.sizes), range(2, 2), e.number(7));
  Term out = reshape(m.normal, x.meta().sizes);
  out = e.has(1) ? out * along(e.tensor(1), 1, x.rank()) : out;
  out = e.has(2) ? out + along(e.tensor(2), 1, x.rank()) : out;
  const Sizes each = {groups.sizes[0], groups.sizes[1]};
  return std::vector<Term>{out, reshape(m.mean, each), reshape(m.rstd, each)};
}

Expanded group_norm_backward(Expansion& e) {
  const Groups groups = groups_of(e, 5);
  const Sizes each = {groups.sizes[0], groups.sizes[1], 1, 1};
  const Term gradient = reshape(e.tensor(0), groups.sizes);
  const Term rstd = reshape(e.tensor(3), each);
  const Term normal = (reshape(e.tensor(1), groups.sizes) - reshape(e.tensor(2), each)) * rstd;
  const Term scaled =
      e.has(4) ? gradient * reshape(e.tensor(4), {1, groups.sizes[1], groups.sizes[2], 1})
               : gradient;
  std::vector<Term> results(3);
  if (e.wants(0)) {
    results[0] = reshape(gradient_of_input(scaled, normal, rstd, range(2, 2)), e.result(0).sizes);
  }
  const auto summed = [&](Term term) {
    return reshape(sum(term, List{0, 3}, false), {groups.channels});
  };
  results[1] = e.wants(1) ? summed(gradient * normal) : Term();
  results[2] = e.wants(2) ? summed(gradient) : Term();
  return results;
}

/// All dimensions but the channels'.
List all_but_channels(const Term& x) {
  List dimensions = all_dimensions(x);
  dimensions.erase(dimensions.begin() + 1);
  return dimensions;
}

Expanded batch_norm_functional(Expansion& e) {
  const Term x = e.tensor(0);
  const std::optional<double> all = count(x);
  const std::optional<std::int64_t> channels = x.meta().sizes[1].constant();
  if (!e.flag(5) || !all || !channels || *channels == 0) {
    return std::nullopt;
  }
  const double each = *all / static_cast<double>(*channels);
  const List dimensions = all_but_channels(x);
  const double momentum = e.number(6);
  const Statistics found = statistics(x, dimensions);
  const Term rstd = rsqrt(found.variance + e.number(7));
  Term out = (x - found.mean) * rstd;
  out = e.has(1) ? out * along(e.tensor(1), 1, x.rank()) : out;
  out = e.has(2) ? out + along(e.tensor(2), 1, x.rank()) : out;
  const Sizes flat = {x.meta().sizes[1]};
  const Term average = reshape(found.mean, flat);
  const Term unbiased = reshape(found.variance, flat) * (each / (each - 1));
  const Term new_mean = e.tensor(3) * (1 - momentum) + average * momentum;
  const Term new_variance = e.tensor(4) * (1 - momentum) + unbiased * momentum;
  return std::vector<Term>{out, average, reshape(rstd, flat), new_mean, new_variance};
}

Expanded batch_norm_backward(Expansion& e) {
  const Term gradient = e.tensor(0);
  const Term x = e.tensor(1);
  const bool training = e.flag(7);
  const List dimensions = all_but_channels(x);
  const Term average = along(e.tensor(training ? 5 : 3), 1, x.rank());
  const Term rstd = along(training ? e.tensor(6) : rsqrt(e.tensor(4) + e.number(8)), 1, x.rank());
  const Term normal = (x - average) * rstd;
  const Term scaled = e.has(2) ? gradient * along(e.tensor(2), 1, x.rank()) : gradient;
  std::vector<Term> results(3);
  if (e.wants(0)) {
    results[0] = training ? gradient_of_input(scaled, normal, rstd, dimensions) : scaled * rstd;
  }
  results[1] = e.wants(1) ? sum(gradient * normal, dimensions, false) : Term();
  results[2] = e.wants(2) ? sum(gradient, dimensions, false) : Term();
  return results;
}

}  // namespace

void add_normalization_decompositions(Decompositions& table) {
  table["aten.native_layer_norm.default"] = {layer_norm};
  table["aten.native_layer_norm_backward.default"] = {layer_norm_backward};
  table["aten.native_group_norm.default"] = {group_norm};
  table["aten.native_group_norm_backward.default"] = {group_norm_backward};
  table["aten._native_batch_norm_legit_functional.default"] = {batch_norm_functional};
  table["aten.native_batch_norm_backward.default"] = {batch_norm_backward};
}

}  // namespace kiln::ir
