#include "kiln/autograd_dispatch/values.hpp"

#include <torch/csrc/autograd/autograd.h>

#include "kiln/base/error.hpp"

namespace kiln::autograd_dispatch::detail {

void add_scalar(StructureWriter& structure, const at::Scalar& scalar) {
  structure.add_integer(static_cast<std::int64_t>(scalar.type()));
  if (scalar.isSymbolic()) {
    throw Error(ErrorCode::kUnsupported, "a number that is an argument is symbolic");
  }
  if (scalar.isComplex()) {
    const auto value = scalar.toComplexDouble();
    structure.add_number(value.real());
    structure.add_number(value.imag());
  } else if (scalar.isFloatingPoint()) {
    structure.add_number(scalar.toDouble());
  } else {
    structure.add_integer(scalar.isBoolean() ? scalar.toBool() : scalar.toLong());
  }
}

at::Scalar read_scalar(StructureReader& structure) {
  switch (static_cast<at::ScalarType>(structure.read_integer())) {
    case at::kComplexDouble: {
      const double real = structure.read_number();
      return c10::complex<double>(real, structure.read_number());
    }
    case at::kDouble: return structure.read_number();
    case at::kBool: return structure.read_integer() != 0;
    default: return structure.read_integer();
  }
}

void backward(const Flat& output, const Flat& gradient, bool retain_graph) {
  if (output.structure != gradient.structure) {
    throw Error(ErrorCode::kInvalidArgument,
                "the gradient should have the structure of the output, '" + output.structure.text +
                    "', and has '" + gradient.structure.text + "'");
  }
  torch::autograd::variable_list outputs, gradients;
  for (std::size_t i = 0; i < output.tensors.size(); ++i) {
    if (output.tensors[i].defined() && output.tensors[i].requires_grad()) {
      outputs.push_back(output.tensors[i]);
      gradients.push_back(gradient.tensors[i]);
    }
  }
  torch::autograd::backward(outputs, gradients, retain_graph);
}

Tensors gradients_of(const Tensors& tensors) {
  Tensors gradients;
  for (const at::Tensor& tensor : tensors) {
    gradients.push_back(tensor.defined() && tensor.is_leaf() ? tensor.grad() : at::Tensor());
  }
  return gradients;
}

}  // namespace kiln::autograd_dispatch::detail
