// What a loop program means, element by element: slow, and the reference for kernels.

#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "loop/evaluate_scalar.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// The elements of a tensor, row-major.
struct Array {
  ir::DType dtype = ir::DType::kFloat32;
  std::vector<std::int64_t> sizes;
  std::vector<Element> elements;
};

/// Computes tensors of a program from those in memory. Sizes must be constant.
class Evaluator final : ScalarEvaluator {
 public:
  /// `memory` gives the tensors of kind `kMemory`.
  Evaluator(const LoopProgram& program, std::function<Array(TensorId)> memory)
      : ScalarEvaluator(program.pool), program_(program), memory_(std::move(memory)) {}

  const Array& of(TensorId tensor);

 private:
  Array compute(const Tensor& tensor);
  Element running_total(const Tensor& tensor, const Point& last);
  void update(const Updates& updates, Array& array);
  [[nodiscard]] Element leaf(const Scalar& scalar, const Point& point) override;

  const LoopProgram& program_;
  std::function<Array(TensorId)> memory_;
  std::unordered_map<TensorId, Array> known_;
};

}  // namespace kiln::codegen
