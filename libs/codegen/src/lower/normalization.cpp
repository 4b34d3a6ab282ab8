// Layer norm, group norm and batch norm, and what their backwards need.

#include <algorithm>
#include <numeric>

#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

namespace {

std::vector<std::size_t> range(std::size_t first, std::size_t last) {
  std::vector<std::size_t> dims(last - first);
  std::iota(dims.begin(), dims.end(), first);
  return dims;
}

// Layer norm's dims: `outer` leading ones are kept, the others are normalised over.
struct Rows {
  TensorId input;
  std::vector<Expr> sizes;
  std::size_t outer = 0;
  std::vector<std::size_t> dims;
  double count = 1;
  DType type = DType::kFloat32;

  [[nodiscard]] std::vector<Index> row(Indices i) const {
    return {i.begin(), i.begin() + static_cast<std::ptrdiff_t>(outer)};
  }
  [[nodiscard]] Indices column(Indices i) const { return i.subspan(outer); }
};

std::optional<Rows> rows_of(const Lowering& l, std::size_t input, std::size_t normalized_shape) {
  Rows rows;
  rows.input = l.tensor(input);
  rows.sizes = l.sizes(rows.input);
  rows.outer = rows.sizes.size() - l.integers(normalized_shape).size();
  rows.dims = range(rows.outer, rows.sizes.size());
  rows.type = compute_type(l.dtype(rows.input));
  const std::optional<std::int64_t> number = count(rows.sizes, rows.dims).constant();
  if (!number || *number == 0 || element_count(rows.sizes) == Expr(0)) {
    return std::nullopt;
  }
  rows.count = static_cast<double>(*number);
  return rows;
}

// native_layer_norm(input, normalized_shape, weight, bias, eps) -> output, mean, rstd
bool lower_layer_norm(Lowering& l) {
  const std::optional<Rows> rows = rows_of(l, 0, 1);
  if (!rows) {
    return false;
  }
  const DType type = rows->type;
  const auto x = [&](Indices i) { return l.broadcast(rows->input, i); };
  const TensorId sum = l.reduce(Reduction::kSum, rows->sizes, rows->dims, type, x);
  const auto average = [&](TensorId of, Indices i) {
    return l.read(of, rows->row(i)) * (1 / rows->count);
  };
  const auto difference = [&](Indices i) { return x(i) - average(sum, i); };
  const TensorId squares = l.reduce(Reduction::kSum, rows->sizes, rows->dims, type, [&](Indices i) {
    return difference(i) * difference(i);
  });
  // What was rounded in the mean is that of the differences: rows of equal numbers become zeros.
  const bool corrects = l.policy().corrects_means;
  const TensorId rest =
      corrects ? l.reduce(Reduction::kSum, rows->sizes, rows->dims, type, difference) : sum;
  const auto mean = [&](Indices i) {
    return corrects ? average(sum, i) + average(rest, i) : average(sum, i);
  };
  const auto rstd = [&](Indices i) {
    return unary(ScalarOp::kRsqrt, average(squares, i) + l.real(4));
  };
  l.define(0, [&](Indices i) {
    Formula y = (x(i) - mean(i)) * rstd(i);
    if (l.is_tensor(2)) {
      y = y * l.read(l.tensor(2), {rows->column(i).begin(), rows->column(i).end()}).to(type);
    }
    if (l.is_tensor(3)) {
      y = y + l.read(l.tensor(3), {rows->column(i).begin(), rows->column(i).end()}).to(type);
    }
    return y;
  });
  l.define(1, mean);
  l.define(2, rstd);
  return true;
}

// native_layer_norm_backward(gradient, input, normalized_shape, mean, rstd, weight, bias, mask)
bool lower_layer_norm_backward(Lowering& l) {
  const std::optional<Rows> rows = rows_of(l, 1, 2);
  if (!rows) {
    return false;
  }
  const DType type = rows->type;
  const std::vector<Expr>& sizes = rows->sizes;
  // Mean and scale were saved with the normalised dims as ones.
  const auto saved = [&](std::size_t argument, Indices i) {
    std::vector<Index> place = rows->row(i);
    place.resize(l.sizes(l.tensor(argument)).size(), Index(0));
    return l.read(l.tensor(argument), place).to(type);
  };
  const auto gradient = [&](Indices i) { return l.broadcast(l.tensor(0), i).to(type); };
  const auto normalized = [&](Indices i) {
    return (l.broadcast(rows->input, i) - saved(3, i)) * saved(4, i);
  };
  const auto scaled = [&](Indices i) {
    if (!l.is_tensor(5)) {
      return gradient(i);
    }
    return gradient(i) *
           l.read(l.tensor(5), {rows->column(i).begin(), rows->column(i).end()}).to(type);
  };
  if (l.wants(0)) {
    const TensorId sum = l.reduce(Reduction::kSum, sizes, rows->dims, type, scaled);
    const TensorId dot = l.reduce(Reduction::kSum, sizes, rows->dims, type, [&](Indices i) {
      return scaled(i) * normalized(i);
    });
    l.define(0, [&](Indices i) {
      const Formula mean = l.read(sum, rows->row(i)) * (1 / rows->count);
      const Formula projection = l.read(dot, rows->row(i)) * (1 / rows->count);
      return saved(4, i) * (scaled(i) - mean - normalized(i) * projection);
    });
  }
  const std::vector<std::size_t> leading = range(0, rows->outer);
  const auto whole = [](Formula x) { return x; };
  if (l.wants(1)) {
    const TensorId sum = l.reduce(Reduction::kSum, sizes, leading, type, [&](Indices i) {
      return gradient(i) * normalized(i);
    });
    l.define_reduced(1, sum, leading, false, whole);
  }
  if (l.wants(2)) {
    const TensorId sum = l.reduce(Reduction::kSum, sizes, leading, type, gradient);
    l.define_reduced(2, sum, leading, false, whole);
  }
  return true;
}

// _native_batch_norm_legit_no_training(input, weight, bias, mean, variance, momentum, eps)
bool lower_batch_norm_inference(Lowering& l) {
  const DType type = compute_type(l.meta(0).dtype);
  const auto channel = [&](std::size_t argument, Indices i) {
    return l.read(l.tensor(argument), {i[1]}).to(type);
  };
  l.define(0, [&](Indices i) {
    Formula scale = unary(ScalarOp::kRsqrt, channel(4, i) + l.real(6));
    if (l.is_tensor(1)) {
      scale = scale * channel(1, i);
    }
    const Formula y = (l.operand(0, i, type) - channel(3, i)) * scale;
    return l.is_tensor(2) ? y + channel(2, i) : y;
  });
  for (const std::size_t saved : {1U, 2U}) {
    // Nothing is saved when nothing is trained: both are empty.
    l.define(saved, [&](Indices) { return l.constant(0, l.meta(saved).dtype); });
  }
  return true;
}

// native_batch_norm(input, weight, bias, mean, variance, training, momentum, eps)
bool lower_batch_norm(Lowering& l) {
  if (l.flag(5) || !l.is_tensor(3) || !l.is_tensor(4)) {
    return false;
  }
  const DType type = compute_type(l.meta(0).dtype);
  const auto channel = [&](std::size_t argument, Indices i) {
    return l.read(l.tensor(argument), {i[1]}).to(type);
  };
  l.define(0, [&](Indices i) {
    Formula scale = unary(ScalarOp::kRsqrt, channel(4, i) + l.real(7));
    if (l.is_tensor(1)) {
      scale = scale * channel(1, i);
    }
    const Formula y = (l.operand(0, i, type) - channel(3, i)) * scale;
    return l.is_tensor(2) ? y + channel(2, i) : y;
  });
  for (const std::size_t saved : {1U, 2U}) {
    if (l.wants(saved) && !(element_count(l.meta(saved).sizes) == Expr(0))) {
      return false;
    }
    l.define(saved, [&](Indices) { return l.constant(0, l.meta(saved).dtype); });
  }
  return true;
}

// Group norm's input, [N, channels, …], where `per` channels are a group.
struct Groups {
  TensorId input;
  std::vector<Expr> sizes;
  std::vector<std::size_t> places = {};  // The dims after the channels.
  std::int64_t per = 1;
  DType type = DType::kFloat32;
};

// From (n, channel) to a sum over the channel's group. Channels lie side by side: their own sums
// come first, many at a time, and then those of each group, once for each of its channels.
std::function<Formula(Indices)> sum_of_neighbours(Lowering& l, const Groups& g, const Body& body) {
  const TensorId each = l.reduce(Reduction::kSum, g.sizes, g.places, g.type, body);
  const std::vector<Expr> box{g.sizes[0], g.sizes[1], g.per};
  const std::vector<std::size_t> last{2};
  const TensorId sum = l.reduce(Reduction::kSum, box, last, g.type, [&](Indices i) {
    return l.read(each, {i[0], floor_div(i[1], g.per, box) * g.per + i[2]});
  });
  return [&l, sum](Indices i) { return l.read(sum, {i[0], i[1]}); };
}

// The same where a channel's places lie side by side.
std::function<Formula(Indices)> sum_of_group(Lowering& l, const Groups& g, const Body& body) {
  std::vector<Expr> box{g.sizes[0], floor_div(g.sizes[1], g.per), g.per};
  box.insert(box.end(), g.sizes.begin() + 2, g.sizes.end());
  const TensorId sum = l.reduce(Reduction::kSum, box, range(2, box.size()), g.type, [&](Indices i) {
    std::vector<Index> place{i[0], i[1] * g.per + i[2]};
    place.insert(place.end(), i.begin() + 3, i.end());
    return body(place);
  });
  // A channel is a dim of its own, or counted from the dims of the box.
  const std::vector<Expr> bounds{g.sizes[0], g.sizes[1], g.per};
  return [&l, sum, per = g.per, bounds](Indices i) {
    return l.read(sum, {i[0], floor_div(i[1], per, bounds)});
  };
}

// native_group_norm(input, weight, bias, N, channels, places, groups, eps) -> output, mean, rstd
bool lower_group_norm(Lowering& l) {
  Groups g{.input = l.tensor(0), .sizes = l.sizes(l.tensor(0))};
  const std::optional<std::int64_t> channels = g.sizes[1].constant(),
                                    groups = l.integer(6).constant();
  g.places = range(2, g.sizes.size());
  const Expr places = count(g.sizes, g.places);
  if (!channels || !groups || *groups < 1 || *channels < 1 || !l.is_positive(places)) {
    return false;
  }
  g.per = *channels / *groups;
  g.type = compute_type(l.dtype(g.input));
  const auto known = places.constant();
  const Formula share = known ? l.constant(1 / static_cast<double>(g.per * *known), g.type)
                              : l.constant(1, g.type) / l.extent(g.per * places, g.type);
  const bool neighbours =
      !g.places.empty() &&
      l.graph().tensor(std::get<ir::ValueId>(l.node().arguments[0])).strides[1] == Expr(1);
  const auto summed = neighbours ? sum_of_neighbours : sum_of_group;

  const auto x = [&](Indices i) { return l.broadcast(g.input, i); };
  const auto sum = summed(l, g, x);
  const auto difference = [&](Indices i) { return x(i) - sum(i) * share; };
  const auto squares = summed(l, g, [&](Indices i) { return difference(i) * difference(i); });
  const auto rest = summed(l, g, difference);  // Of what was rounded in the mean.
  const auto mean = [&](Indices i) { return sum(i) * share + rest(i) * share; };
  const auto rstd = [&](Indices i) {
    return unary(ScalarOp::kRsqrt, squares(i) * share + l.real(7));
  };
  std::function<Formula(Indices)> scale = [&](Indices i) {
    return l.is_tensor(1) ? rstd(i) * l.read(l.tensor(1), {i[1]}).to(g.type) : rstd(i);
  };
  // Where the kernel that sums a group also normalizes it, it has the scale of its row; other
  // kernels read that of the channel.
  if (neighbours || !known || g.per * *known > l.policy().max_row_elements) {
    const TensorId computed = l.compute({g.sizes[0], g.sizes[1]}, g.type, scale);
    scale = [&l, computed](Indices i) { return l.read(computed, {i[0], i[1]}); };
  }
  l.define(0, [&](Indices i) {
    const Formula y = (x(i) - mean(i)) * scale(i);
    return l.is_tensor(2) ? y + l.read(l.tensor(2), {i[1]}).to(g.type) : y;
  });
  const auto first = [&](Indices i) { return std::vector<Index>{i[0], i[1] * g.per}; };
  l.define(1, [&](Indices i) { return mean(first(i)); });
  l.define(2, [&](Indices i) { return rstd(first(i)); });
  return true;
}

}  // namespace

void add_normalization_lowerings(Lowerings& table) {
  table["aten.native_layer_norm.default"] = lower_layer_norm;
  table["aten.native_layer_norm_backward.default"] = lower_layer_norm_backward;
  table["aten._native_batch_norm_legit_no_training.default"] = lower_batch_norm_inference;
  table["aten.native_batch_norm.default"] = lower_batch_norm;
  table["aten.native_group_norm.default"] = lower_group_norm;
}

}  // namespace kiln::codegen
