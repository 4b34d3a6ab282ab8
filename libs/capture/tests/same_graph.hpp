// Programs that are traced with their values and without.

#pragma once

#include <torch/torch.h>

#include <regex>
#include <string>

#include "kiln/capture/record.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::capture::testing {

struct Product {
  std::string name;
  TensorFunction function;
  Tensors operands;
};

inline torch::Tensor convolved(
    const Tensors& in, int stride, int padding, int dilation, int groups) {
  return torch::conv2d(in[0], in[1], {}, stride, padding, dilation, groups);
}

// Without autograd's numbers, which go on from trace to trace.
inline std::string printed(const TensorFunction& function,
                           const Tensors& inputs,
                           const RecordOptions& options) {
  static const std::regex sequence(" sequence [0-9]+");
  return std::regex_replace(ir::print(record(function, inputs, options).graph), sequence, "");
}

// Shapes, strides and types are libtorch's.
inline void check_same_graph(const Product& product) {
  INFO(product.name);
  CHECK(printed(product.function, product.operands, {.without_values = true}) ==
        printed(product.function, product.operands, {}));
}

}  // namespace kiln::capture::testing
