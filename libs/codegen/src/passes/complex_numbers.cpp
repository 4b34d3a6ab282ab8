#include "passes/complex_numbers.hpp"

#include <algorithm>
#include <complex>
#include <optional>
#include <string_view>
#include <vector>

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

// The number that an operator fills a complex tensor with; nothing if it is not such an operator.
std::optional<std::complex<double>> fill_value(const ir::Graph& graph, const ir::Node& node) {
  const bool is_new = node.target == "aten.new_full.default";
  const bool fills =
      is_new || node.target == "aten.full.default" || node.target == "aten.full_like.default";
  if (!fills || !node.results[0].valid()) {
    return std::nullopt;
  }
  const ir::TensorMeta& result = graph.tensor(node.results[0]);
  const bool is_complex =
      result.dtype == ir::DType::kComplex64 || result.dtype == ir::DType::kComplex128;
  if (!is_complex || result.strides != ir::contiguous_strides(result.sizes)) {
    return std::nullopt;
  }
  const ir::Argument& value = node.arguments[is_new ? 2 : 1];
  if (const auto* number = std::get_if<std::complex<double>>(&value)) {
    return *number;
  }
  if (const auto* number = std::get_if<double>(&value)) {
    return *number;
  }
  const auto* integer = std::get_if<ir::Expr>(&value);
  return integer != nullptr && integer->is_constant()
             ? std::optional<std::complex<double>>(static_cast<double>(*integer->constant()))
             : std::nullopt;
}

// What a number beside `self` is computed in: comparisons have results of another type.
ir::DType computed_type(ir::DType result, const ir::Graph& graph, const ir::Argument& self) {
  if (ir::is_complex(result)) {
    return result;
  }
  const ir::DType own = graph.tensor(std::get<ir::ValueId>(self)).dtype;
  const bool is_wide = own == ir::DType::kFloat64 || own == ir::DType::kComplex128;
  return is_wide ? ir::DType::kComplex128 : ir::DType::kComplex64;
}

ir::DType part_of(ir::DType complex) {
  return complex == ir::DType::kComplex128 ? ir::DType::kFloat64 : ir::DType::kFloat32;
}

// A tensor of `number` in each place.
ValueId as_tensor(ir::Graph& graph,
                  std::complex<double> number,
                  const std::vector<ir::Expr>& sizes,
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
    meta.sizes = sizes;
    meta.strides = ir::contiguous_strides(sizes);
    meta.storage = graph.new_storage();
    const NodeId made = graph.add_node(std::move(node), {std::move(meta)});
    return graph.node(made).results[0];
  };
  const auto part = [&](double value) {
    const ir::DType of = part_of(dtype);
    return add(
        "aten.full.default", {sizes, value, of, ir::Layout::kStrided, device, false}, "", of);
  };
  const ValueId real = part(number.real()), imaginary = part(number.imag());
  return add("aten.complex.default", {real, imaginary}, "Tensor real,Tensor imag->Tensor", dtype);
}

}  // namespace

ir::Graph complex_numbers_as_tensors(const ir::Graph& graph) {
  const auto is_rewritten = [&](const ir::Node& node) {
    return takes_complex_number(node) || fill_value(graph, node);
  };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_rewritten)) {
    return graph;
  }
  ir::Rewriter rewriter(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const NodeId id(i);
    if (!is_rewritten(graph.node(id))) {
      rewriter.copy(id);
      continue;
    }
    ir::Node node = graph.node(id);
    const ir::TensorMeta& result = graph.tensor(node.results[0]);
    if (const std::optional<std::complex<double>> number = fill_value(graph, node)) {
      rewriter.map(node.results[0],
                   as_tensor(rewriter.graph(), *number, result.sizes, result.dtype, result.device));
      continue;
    }
    for (ir::Argument& argument : node.arguments) {
      argument = rewriter.mapped(argument);
    }
    node.arguments[1] = as_tensor(rewriter.graph(),
                                  std::get<std::complex<double>>(node.arguments[1]),
                                  {},
                                  computed_type(result.dtype, rewriter.graph(), node.arguments[0]),
                                  result.device);
    node.target.replace(node.target.size() - kOverload.size(), kOverload.size(), ".Tensor");
    node.signature.replace(node.signature.find(kParameter), kParameter.size(), "Tensor other");
    rewriter.replace(id, std::move(node));
  }
  return rewriter.finish();
}

}  // namespace kiln::codegen
