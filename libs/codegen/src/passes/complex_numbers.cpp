#include "passes/complex_numbers.hpp"

#include <algorithm>
#include <string_view>

#include "kiln/ir/rewrite.hpp"

namespace kiln::codegen {

using ir::NodeId;
using ir::ValueId;

namespace {

constexpr std::string_view kOverload = ".Scalar", kParameter = "Scalar other";

// "aten.mul.Scalar" with a complex factor, and its like: the number is the second argument.
bool takes_complex_number(const ir::Node& node) {
  const std::string_view target = node.target;
  return target.ends_with(kOverload) && node.arguments.size() >= 2 && node.results.size() == 1 &&
         std::holds_alternative<std::complex<double>>(node.arguments[1]) &&
         node.signature.find(kParameter) != std::string::npos;
}

ir::DType part_of(ir::DType complex) {
  return complex == ir::DType::kComplex128 ? ir::DType::kFloat64 : ir::DType::kFloat32;
}

// `number`, as one element of `dtype`.
ValueId as_tensor(ir::Graph& graph,
                  std::complex<double> number,
                  ir::DType dtype,
                  const ir::Device& device) {
  const auto add = [&](std::string target,
                       std::vector<ir::Argument> arguments,
                       std::string signature,
                       ir::DType of) {
    ir::Node node;
    node.target = std::move(target);
    node.arguments = std::move(arguments);
    node.signature = std::move(signature);
    ir::TensorMeta meta{.dtype = of, .device = device};
    meta.storage = graph.new_storage();
    const NodeId made = graph.add_node(std::move(node), {std::move(meta)});
    return graph.node(made).results[0];
  };
  const auto part = [&](double value) {
    const ir::DType of = part_of(dtype);
    return add("aten.full.default",
               {std::vector<ir::Expr>(), value, of, ir::Layout::kStrided, device, false},
               "",
               of);
  };
  const ValueId real = part(number.real()), imaginary = part(number.imag());
  return add("aten.complex.default", {real, imaginary}, "Tensor real,Tensor imag->Tensor", dtype);
}

}  // namespace

ir::Graph complex_numbers_as_tensors(const ir::Graph& graph) {
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), takes_complex_number)) {
    return graph;
  }
  ir::Rewriter rewriter(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const NodeId id(i);
    if (!takes_complex_number(graph.node(id))) {
      rewriter.copy(id);
      continue;
    }
    ir::Node node = graph.node(id);
    const ir::TensorMeta& result = graph.tensor(node.results[0]);
    for (ir::Argument& argument : node.arguments) {
      argument = rewriter.mapped(argument);
    }
    node.arguments[1] = as_tensor(rewriter.graph(),
                                  std::get<std::complex<double>>(node.arguments[1]),
                                  result.dtype,
                                  result.device);
    node.target.replace(node.target.size() - kOverload.size(), kOverload.size(), ".Tensor");
    node.signature.replace(node.signature.find(kParameter), kParameter.size(), "Tensor other");
    rewriter.replace(id, std::move(node));
  }
  return rewriter.finish();
}

}  // namespace kiln::codegen
