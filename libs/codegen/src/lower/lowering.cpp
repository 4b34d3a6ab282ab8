#include "lower/lowering.hpp"

#include <algorithm>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::codegen {

using ir::Argument;
using ir::DType;
using ir::Expr;

namespace {

// In double, operation by operation.
Formula formula_of(const ir::RealExpr& real, ScalarPool& pool) {
  using Op = ir::RealExpr::Op;
  const auto operand = [&](std::size_t i) { return formula_of(real.operands()[i], pool); };
  // A product is rounded before it is added to something.
  const auto term = [&](std::size_t i) {
    const bool is_product = real.operands()[i].op() == Op::kMultiply;
    return is_product ? unary(ScalarOp::kFence, operand(i)) : operand(i);
  };
  switch (real.op()) {
    case Op::kConstant: return {&pool, pool.constant(*real.constant(), DType::kFloat64)};
    case Op::kFloat: return Formula{&pool, pool.index(real.integer())}.to(DType::kFloat64);
    case Op::kAdd: return term(0) + term(1);
    case Op::kSubtract: return term(0) - term(1);
    case Op::kMultiply: return operand(0) * operand(1);
    case Op::kDivide: return operand(0) / operand(1);
    case Op::kSqrt: return unary(ScalarOp::kSqrt, operand(0));
    case Op::kRoundToFloat: return operand(0).to(DType::kFloat32).to(DType::kFloat64);
  }
  throw Error(ErrorCode::kInternal, "a number that depends on sizes has an unknown operation");
}

}  // namespace

std::vector<Index> variables(std::size_t rank) {
  std::vector<Index> result;
  for (std::size_t i = 0; i < rank; ++i) {
    result.push_back(Index::variable(static_cast<int>(i)));
  }
  return result;
}

Expr count(std::span<const Expr> sizes, std::span<const std::size_t> dims) {
  Expr product = 1;
  for (const std::size_t dim : dims) {
    product = product * sizes[dim];
  }
  return product;
}

std::vector<Index> kept_indices(Indices indices, std::span<const std::size_t> dims) {
  std::vector<Index> kept;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    if (!std::ranges::binary_search(dims, k)) {
      kept.push_back(indices[k]);
    }
  }
  return kept;
}

bool is_lowerable(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kBool:
    case DType::kBFloat16: return true;
    default: return false;
  }
}

bool is_dense(std::span<const Expr> sizes, std::span<const Expr> strides) {
  Expr expected = 1;
  std::vector<bool> seen(sizes.size());
  for (std::size_t step = 0; step < sizes.size(); ++step) {
    bool found = false;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      if (!seen[i] && (sizes[i] == Expr(1) || strides[i] == expected)) {
        seen[i] = found = true;
        expected = expected * sizes[i];
        break;
      }
    }
    if (!found) {
      return false;
    }
  }
  return true;
}

std::vector<Expr> dense_strides(const ir::TensorMeta& meta) {
  const bool usable =
      meta.strides.size() == meta.sizes.size() &&
      !std::ranges::any_of(meta.sizes, [](const Expr& e) { return e == Expr(0); }) &&
      is_dense(meta.sizes, meta.strides);
  return usable ? meta.strides : ir::contiguous_strides(meta.sizes);
}

// Half numbers are computed in float, and stay so as long as only operators on them read them. What
// makes something else of them sees them as they would be stored.
bool Lowering::leaves(DType type) const {
  return compute_type(type) != type && std::ranges::any_of(node_.results, [&](ir::ValueId result) {
           return result.valid() && graph_.value(result).is_tensor() &&
                  graph_.tensor(result).dtype != type;
         });
}

Formula Lowering::read(TensorId tensor, std::vector<Index> indices) const {
  const DType type = program_[tensor].dtype;
  const Formula value{&program_.pool, program_.pool.read(tensor, std::move(indices), type)};
  return leaves(type) ? rounded(value, type) : value;
}

Formula Lowering::broadcast(TensorId tensor, Indices indices) const {
  const std::vector<Expr>& own = program_[tensor].sizes;
  ensure(own.size() <= indices.size(), "a tensor is broadcast to fewer dims than it has");
  const std::size_t skip = indices.size() - own.size();
  std::vector<Index> mapped;
  for (std::size_t i = 0; i < own.size(); ++i) {
    mapped.push_back(own[i] == Expr(1) ? Index(0) : indices[skip + i]);
  }
  return read(tensor, std::move(mapped));
}

Formula Lowering::constant(double value, DType type) const {
  return {&program_.pool, program_.pool.constant(value, type)};
}

Formula Lowering::extent(const Expr& size, DType type) const {
  if (const auto number = size.constant()) {
    return constant(static_cast<double>(*number), type);
  }
  return Formula{&program_.pool, program_.pool.index(Index(size))}.to(type);
}

Formula Lowering::number(std::size_t i, DType type) const {
  const Argument& argument = node_.arguments.at(i);
  if (const auto* value = std::get_if<double>(&argument)) {
    return constant(*value, type);
  }
  if (const auto* value = std::get_if<ir::RealExpr>(&argument)) {
    return formula_of(*value, program_.pool).to(type);
  }
  return Formula{&program_.pool, program_.pool.index(integer(i))}.to(type);
}

// ATen makes elements of them first, but for numbers on a GPU.
Formula Lowering::operand(std::size_t i, Indices indices, DType type) const {
  if (is_tensor(i)) {
    const Formula element = broadcast(tensor(i), indices);
    const DType own = dtype(tensor(i));
    // Half types hold every byte.
    const bool is_exact = own == type || (!ir::is_floating_point(own) && ir::size_of(own) == 1);
    return is_exact ? element.to(type) : rounded(element, type);
  }
  return device().type == ir::DeviceType::kCpu ? element(i, type) : number(i, type);
}

Formula Lowering::element(std::size_t i, DType type) const {
  if (!ir::is_half(type)) {
    return number(i, type);
  }
  return varies(i) ? rounded(number(i, type), type) : constant(ir::round_to(real(i), type), type);
}

Formula Lowering::factor(std::size_t i, Indices indices, DType type) const {
  const bool is_single =
      !is_tensor(i) ||
      std::ranges::all_of(sizes(tensor(i)), [](const Expr& size) { return size == Expr(1); });
  if (!is_single || device().type != ir::DeviceType::kCpu) {
    return operand(i, indices, type);
  }
  return is_tensor(i) ? broadcast(tensor(i), indices).to(type) : number(i, type);
}

bool Lowering::wants(std::size_t result) const {
  return result < node_.results.size() && node_.results[result].valid();
}

bool Lowering::is_used(std::size_t result) const {
  return wants(result) &&
         (!uses_.of(node_.results[result]).empty() || uses_.is_output(node_.results[result]));
}

const ir::TensorMeta& Lowering::meta(std::size_t result) const {
  return graph_.tensor(node_.results.at(result));
}

// What a node computes on the way lies where its results do.
ir::Device Lowering::device() const {
  const auto result = std::ranges::find_if(node_.results, [&](ir::ValueId value) {
    return value.valid() && graph_.value(value).is_tensor();
  });
  return result == node_.results.end() ? ir::Device() : graph_.tensor(*result).device;
}

TensorId Lowering::add(Tensor tensor) {
  tensor.node = id_;
  tensor.device = device();
  program_.tensors.push_back(std::move(tensor));
  return TensorId(program_.tensors.size() - 1);
}

void Lowering::define(std::size_t result, const Body& body) {
  if (!wants(result)) {
    return;
  }
  const ir::TensorMeta& shape = meta(result);
  const Formula value = body(variables(shape.sizes.size())).to(shape.dtype);
  program_.of_value[node_.results[result].index()] = add({.kind = Tensor::Kind::kPointwise,
                                                          .dtype = shape.dtype,
                                                          .sizes = shape.sizes,
                                                          .strides = dense_strides(shape),
                                                          .body = value.id,
                                                          .value = node_.results[result]});
}

void Lowering::define_view(std::size_t result,
                           TensorId source,
                           const std::function<std::vector<Index>(Indices)>& map) {
  if (!wants(result)) {
    return;
  }
  define(result, [&](Indices indices) { return read(source, map(indices)); });
  program_.tensors.back().is_view = true;
}

void Lowering::define_concatenation(std::size_t result, const Body& body) {
  define(result, body);
  program_.tensors.back().is_concatenation = true;
}

TensorId Lowering::compute(std::vector<Expr> sizes, DType dtype, const Body& body) {
  Tensor tensor{.kind = Tensor::Kind::kPointwise, .dtype = dtype};
  tensor.body = body(variables(sizes.size())).to(dtype).id;
  tensor.strides = ir::contiguous_strides(sizes);
  tensor.sizes = std::move(sizes);
  return add(std::move(tensor));
}

void Lowering::define_scan(
    std::size_t result, Reduction reduction, std::size_t dim, DType type, const Body& body) {
  define(result, body);
  Tensor& tensor = program_.tensors.back();
  tensor.kind = Tensor::Kind::kScan;
  tensor.reduction = reduction;
  tensor.scanned = dim;
  tensor.body = program_.pool.cast(tensor.body, type);
}

std::optional<Updates> Lowering::single_use_scatter(std::size_t i) const {
  const auto value = std::get<ir::ValueId>(node_.arguments.at(i));
  const Tensor& tensor = program_[this->tensor(i)];
  if (tensor.kind != Tensor::Kind::kScatter || tensor.updates->reduction != Reduction::kSum ||
      uses_.of(value).size() != 1 || uses_.is_output(value)) {
    return std::nullopt;
  }
  const Scalar& body = program_.pool[tensor.body];
  const bool zero = body.op == ScalarOp::kConstant && body.real == 0 && body.integer == 0;
  return zero ? tensor.updates : std::nullopt;
}

void Lowering::define_scatter(std::size_t result, const Body& body, Updates updates) {
  define(result, body);
  Tensor& tensor = program_.tensors.back();
  tensor.kind = Tensor::Kind::kScatter;
  updates.value = program_.pool.cast(updates.value, tensor.dtype);
  tensor.updates = std::move(updates);
}

TensorId Lowering::reduce(Reduction reduction,
                          std::span<const Expr> sizes,
                          std::span<const std::size_t> dims,
                          DType dtype,
                          const Body& body) {
  Tensor tensor{.kind = Tensor::Kind::kReduction, .dtype = dtype, .reduction = reduction};
  std::vector<Index> indices(sizes.size());
  int variable = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (!std::ranges::binary_search(dims, i)) {
      tensor.sizes.push_back(sizes[i]);
      indices[i] = Index::variable(variable++);
    }
  }
  if (count(sizes, dims) == Expr(1)) {
    // A sum begins with zero, which even one element may change: -0 becomes 0.
    return compute(std::move(tensor.sizes), dtype, [&](Indices) {
      const Formula one = body(indices).to(dtype);
      return reduction == Reduction::kSum ? one + one.number(0) : one;
    });
  }
  for (const std::size_t dim : dims) {
    tensor.reduced.push_back(sizes[dim]);
    indices[dim] = Index::variable(variable++);
  }
  tensor.strides = ir::contiguous_strides(tensor.sizes);
  tensor.body = body(indices).to(dtype).id;
  return add(std::move(tensor));
}

void Lowering::define_reduced(std::size_t result,
                              TensorId reduced,
                              std::span<const std::size_t> dims,
                              bool keep,
                              const std::function<Formula(Formula)>& finish) {
  define(result, [&](Indices indices) {
    std::vector<Index> kept;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (!keep || !std::ranges::binary_search(dims, i)) {
        kept.push_back(indices[i]);
      }
    }
    return finish(read(reduced, std::move(kept)));
  });
}

}  // namespace kiln::codegen
