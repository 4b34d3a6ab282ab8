// Family U: differentiable operators, each as a small program.

#pragma once

#include <torch/torch.h>

#include <vector>

namespace kiln::testing {

/// What the programs compute with: elements between 0.1 and 0.9, all requiring grad.
struct Operands {
  at::Tensor a, b;    ///< 3 x 4
  at::Tensor m, c;    ///< 4 x 3 and 3 x 3
  at::Tensor s, v;    ///< 4 x 4 and 4
  at::Tensor image;   ///< 2 x 3 x 8 x 8
  at::Tensor kernel;  ///< 4 x 3 x 3 x 3
};

/// One operator in use.
struct OperatorCase {
  const char* name;
  at::Tensor (*program)(const Operands& x);
};

/// `tensor` after `write`.
template <class Write>
at::Tensor written(at::Tensor tensor, const Write& write) {
  write(tensor);
  return tensor;
}

/// Operators on elements, their in-place forms among them.
std::vector<OperatorCase> pointwise_cases();
/// All others.
std::vector<OperatorCase> structured_cases();

}  // namespace kiln::testing
