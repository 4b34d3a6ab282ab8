// Softmax and its logarithm, forward and backward: a maximum, a sum, and what is made of them.

#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

namespace {

std::vector<Index> without(Indices i, std::size_t dim) {
  std::vector<Index> kept(i.begin(), i.end());
  if (!kept.empty()) {
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(dim));
  }
  return kept;
}

// The dims to reduce: a 0-d tensor has none.
std::vector<std::size_t> reduced_dims(std::size_t rank, std::size_t dim) {
  return rank == 0 ? std::vector<std::size_t>() : std::vector<std::size_t>{dim};
}

template <bool logarithm>
bool lower_softmax(Lowering& l) {
  const TensorId source = l.tensor(0);
  const std::vector<Expr> sizes = l.sizes(source);
  const std::size_t dim = *l.dim(1, sizes.size(), -1);
  const std::vector<std::size_t> dims = reduced_dims(sizes.size(), dim);
  const DType type = compute_type(l.meta(0).dtype);
  if (element_count(sizes) == Expr(0)) {
    return false;
  }
  const auto x = [&](Indices i) { return l.broadcast(source, i).to(type); };
  const TensorId maximum = l.reduce(Reduction::kMaximum, sizes, dims, type, x);
  const auto shifted = [&](Indices i) { return x(i) - l.read(maximum, without(i, dim)); };
  const TensorId sum = l.reduce(Reduction::kSum, sizes, dims, type, [&](Indices i) {
    return unary(ScalarOp::kExp, shifted(i));
  });
  l.define(0, [&](Indices i) {
    const Formula total = l.read(sum, without(i, dim));
    if (logarithm) {
      return shifted(i) - unary(ScalarOp::kLog, total);
    }
    return unary(ScalarOp::kExp, shifted(i)) * unary(ScalarOp::kReciprocal, total);
  });
  return true;
}

// (gradient, output, dim, input_dtype)
template <bool logarithm>
bool lower_softmax_backward(Lowering& l) {
  const std::vector<Expr> sizes = l.sizes(l.tensor(1));
  const std::size_t dim = *l.dim(2, sizes.size(), -1);
  const std::vector<std::size_t> dims = reduced_dims(sizes.size(), dim);
  const DType type = compute_type(l.dtype(l.tensor(1)));
  const auto gradient = [&](Indices i) { return l.broadcast(l.tensor(0), i).to(type); };
  const auto output = [&](Indices i) { return l.broadcast(l.tensor(1), i); };
  if (element_count(sizes) == Expr(0)) {
    return false;
  }
  const TensorId sum = l.reduce(Reduction::kSum, sizes, dims, type, [&](Indices i) {
    return logarithm ? gradient(i) : gradient(i) * output(i);
  });
  l.define(0, [&](Indices i) {
    const Formula total = l.read(sum, without(i, dim));
    if (logarithm) {
      return gradient(i) - unary(ScalarOp::kExp, output(i)) * total;
    }
    return output(i) * (gradient(i) - total);
  });
  return true;
}

}  // namespace

void add_softmax_lowerings(Lowerings& table) {
  table["aten._softmax.default"] = lower_softmax<false>;
  table["aten._log_softmax.default"] = lower_softmax<true>;
  table["aten._softmax_backward_data.default"] = lower_softmax_backward<false>;
  table["aten._log_softmax_backward_data.default"] = lower_softmax_backward<true>;
}

}  // namespace kiln::codegen
