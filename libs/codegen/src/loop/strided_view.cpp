#include "loop/strided_view.hpp"

namespace kiln::codegen {

using ir::Expr;

Index address_of(const Tensor& tensor, std::span<const Index> indices) {
  Index address;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    address = address + indices[i] * tensor.strides[i];
  }
  return address;
}

std::optional<StridedView> find_strided_view(const LoopProgram& program, TensorId id) {
  const std::vector<Expr>& sizes = program[id].sizes;
  std::vector<Index> indices;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    indices.push_back(sizes[i] == Expr(1) ? Index(0) : Index::variable(static_cast<int>(i)));
  }
  TensorId root = id;
  while (program[root].is_view) {
    const Scalar& read = program.pool[program[root].body];
    if (read.op != ScalarOp::kRead) {
      return std::nullopt;
    }
    std::vector<Index> mapped;
    for (const Index& index : read.indices) {
      mapped.push_back(substitute(index, indices, sizes, [](ScalarId scalar) { return scalar; }));
    }
    indices = std::move(mapped);
    root = read.tensor;
  }
  const Index address = address_of(program[root], indices);
  StridedView view{root, address.constant(), {}};
  bool computed = false;
  for_each_computed(address, [&](ScalarId) { computed = true; });
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::optional<Expr> factor = address.factor_of(static_cast<int>(i));
    if (!factor || computed) {
      return std::nullopt;
    }
    view.strides.push_back(*factor);
  }
  // A dim of size 1 may have any stride: the row-major one reads best.
  const std::vector<Expr> dense = ir::contiguous_strides(sizes);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == Expr(1)) {
      view.strides[i] = dense[i];
    }
  }
  return view;
}

StridedView own_memory_of(const LoopProgram& program, ir::ValueId value) {
  const TensorId tensor = *program.of_value[value.index()];
  return {tensor, 0, program[tensor].strides};
}

StridedView strided_view_of(const LoopProgram& program, ir::ValueId value) {
  const std::optional<StridedView> view =
      find_strided_view(program, *program.of_value[value.index()]);
  return view ? *view : own_memory_of(program, value);
}

}  // namespace kiln::codegen
