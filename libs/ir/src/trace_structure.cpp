#include "trace_structure.hpp"

#include <algorithm>

#include "argument.hpp"
#include "kiln/ir/print.hpp"

namespace kiln::ir {
namespace {

using Difference = std::optional<std::string>;

bool is_real(const Argument& argument) {
  return std::holds_alternative<double>(argument) || std::holds_alternative<RealExpr>(argument);
}

// Equal but for numbers, of which there must be as many.
bool is_same_argument(const Argument& a, const Argument& b) {
  if (is_real(a) && is_real(b)) {
    return true;
  }
  if (a.index() != b.index()) {
    return false;
  }
  if (const auto* list = std::get_if<std::vector<Expr>>(&a)) {
    return list->size() == std::get<std::vector<Expr>>(b).size();
  }
  return std::holds_alternative<Expr>(a) || std::holds_alternative<SubgraphRef>(a) ||
         identical(a, b);
}

Difference between_values(const Value& a, const Value& b) {
  if (a.is_tensor() != b.is_tensor()) {
    return "it is a tensor at some sizes only";
  }
  if (!a.is_tensor()) {
    return std::nullopt;
  }
  const TensorMeta& one = a.tensor();
  const TensorMeta& other = b.tensor();
  if (one.dtype != other.dtype || one.device != other.device) {
    return "it is " + print_type(a.meta) + " and " + print_type(b.meta);
  }
  if (one.sizes.size() != other.sizes.size()) {
    return "it has " + std::to_string(one.sizes.size()) + " and " +
           std::to_string(other.sizes.size()) + " dimensions";
  }
  if (one.storage != other.storage || one.conjugate != other.conjugate ||
      one.negative != other.negative || one.requires_grad != other.requires_grad) {
    return "it is a view of something else";
  }
  return std::nullopt;
}

bool has_same_role(const Node& a, const Node& b) {
  // A graph that was read from text does not have signatures, which follow from targets.
  const bool has_same_signature =
      a.signature == b.signature || a.signature.empty() || b.signature.empty();
  return has_same_signature && a.mutates == b.mutates && a.aliases == b.aliases &&
         a.random == b.random && a.effectful == b.effectful && a.grad_mode == b.grad_mode &&
         a.autocast == b.autocast;
}

Difference between_nodes(const Graph& a, const Graph& b, std::size_t position) {
  const Node& one = a.nodes()[position];
  const Node& other = b.nodes()[position];
  const std::string place = print_place(a, position);
  if (one.target != other.target || one.arguments.size() != other.arguments.size()) {
    return place + " is " + print_place(b, position) + " at other sizes";
  }
  if (!has_same_role(one, other)) {
    return place + " mutates or aliases something else at other sizes";
  }
  for (std::size_t i = 0; i < one.arguments.size(); ++i) {
    if (!is_same_argument(one.arguments[i], other.arguments[i])) {
      return place + ": the argument " + argument_name(one, i) + " is " +
             print_argument(a, one.arguments[i]) + ", and " +
             print_argument(b, other.arguments[i]) + " at other sizes";
    }
    if (const auto* body = std::get_if<SubgraphRef>(&one.arguments[i])) {
      const auto& other_body = std::get<SubgraphRef>(other.arguments[i]);
      if (auto within =
              structural_difference(a.subgraphs()[body->index], b.subgraphs()[other_body.index])) {
        return place + ": " + *within;
      }
    }
  }
  if (one.results != other.results) {
    return place + " returns other tensors at other sizes";
  }
  for (const ValueId result : one.results) {
    if (result.valid()) {
      if (auto difference = between_values(a.value(result), b.value(result))) {
        return place + ": " + *difference + " at other sizes";
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Difference structural_difference(const Graph& a, const Graph& b) {
  const auto same_role = [](const Input& x, const Input& y) {
    return x.value == y.value && x.kind == y.kind && x.name == y.name;
  };
  if (!std::ranges::equal(a.inputs(), b.inputs(), same_role)) {
    return "it uses other tensors at other sizes";
  }
  for (const Input& input : a.inputs()) {
    if (auto difference = between_values(a.value(input.value), b.value(input.value))) {
      return "input '" + input.name + "': " + *difference + " at other sizes";
    }
  }
  const std::size_t nodes = std::min(a.nodes().size(), b.nodes().size());
  for (std::size_t i = 0; i < nodes; ++i) {
    if (auto difference = between_nodes(a, b, i)) {
      return difference;
    }
  }
  if (a.nodes().size() != b.nodes().size()) {
    return print_place(a.nodes().size() > nodes ? a : b, nodes) + ", is called at some sizes only";
  }
  if (!std::ranges::equal(a.outputs(), b.outputs())) {
    return "it returns other values at other sizes";
  }
  return std::nullopt;
}

}  // namespace kiln::ir
