// Layer norm and batch norm, and what their backwards need.

#include <algorithm>
#include <numeric>

#include "lowering.hpp"

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
  const auto mean = [&](Indices i) { return l.read(sum, rows->row(i)) * (1 / rows->count); };
  const TensorId squares = l.reduce(Reduction::kSum, rows->sizes, rows->dims, type, [&](Indices i) {
    const Formula difference = x(i) - mean(i);
    return difference * difference;
  });
  const auto rstd = [&](Indices i) {
    const Formula variance = l.read(squares, rows->row(i)) * (1 / rows->count);
    return unary(ScalarOp::kRsqrt, variance + l.real(4));
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

}  // namespace

void add_normalization_lowerings(Lowerings& table) {
  table["aten.native_layer_norm.default"] = lower_layer_norm;
  table["aten.native_layer_norm_backward.default"] = lower_layer_norm_backward;
  table["aten._native_batch_norm_legit_no_training.default"] = lower_batch_norm_inference;
  table["aten.native_batch_norm.default"] = lower_batch_norm;
}

}  // namespace kiln::codegen
