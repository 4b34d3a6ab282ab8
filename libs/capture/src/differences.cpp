#include "differences.hpp"

#include <ATen/Functions.h>

#include <algorithm>

#include "kiln/capture/identity.hpp"
#include "kiln/ir/print.hpp"

namespace kiln::capture {
namespace {

using Difference = std::optional<std::string>;

Difference between(const ir::Graph& first, const ir::Graph& second);

bool same_geometry(const ir::ValueMeta& a, const ir::ValueMeta& b) {
  if (!std::holds_alternative<ir::TensorMeta>(a) || !std::holds_alternative<ir::TensorMeta>(b)) {
    return a == b;
  }
  const auto& one = std::get<ir::TensorMeta>(a);
  const auto& other = std::get<ir::TensorMeta>(b);
  return one.dtype == other.dtype && one.device == other.device && one.sizes == other.sizes &&
         one.strides == other.strides && one.offset == other.offset;
}

// Numbers are compared by their text, in which a NaN is equal to itself.
Difference between_arguments(const ir::Graph& first,
                             const ir::Graph& second,
                             std::size_t position) {
  const ir::Node& node = first.nodes()[position];
  const ir::Node& other = second.nodes()[position];
  for (std::size_t i = 0; i < std::min(node.arguments.size(), other.arguments.size()); ++i) {
    const auto* body = std::get_if<ir::SubgraphRef>(&node.arguments[i]);
    const auto* other_body = std::get_if<ir::SubgraphRef>(&other.arguments[i]);
    if (body != nullptr && other_body != nullptr) {
      const ir::Graph& nested = first.subgraphs()[body->index];
      if (auto within = between(nested, second.subgraphs()[other_body->index])) {
        return ir::print_place(first, position) + ", " + nested.name() + ": " + *within;
      }
      continue;
    }
    const std::string was = ir::print_argument(first, node.arguments[i]);
    const std::string is = ir::print_argument(second, other.arguments[i]);
    if (was != is) {
      return ir::print_place(first, position) + ": the argument " + ir::argument_name(node, i) +
             " was " + was + " and is " + is;
    }
  }
  return std::nullopt;
}

Difference between_nodes(const ir::Graph& first, const ir::Graph& second, std::size_t position) {
  const ir::Node& node = first.nodes()[position];
  const ir::Node& other = second.nodes()[position];
  const std::string place = ir::print_place(first, position);
  if (node.target != other.target || node.arguments.size() != other.arguments.size()) {
    return place + ", is " + ir::print_place(second, position) + " instead";
  }
  if (node.grad_mode != other.grad_mode || node.autocast != other.autocast) {
    return place + ", runs under another grad mode or autocast";
  }
  if (auto difference = between_arguments(first, second, position)) {
    return difference;
  }
  if (node.results.size() != other.results.size()) {
    return place + ": it returned " + std::to_string(node.results.size()) +
           " tensors and returns " + std::to_string(other.results.size());
  }
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    if (node.results[i].valid() && other.results[i].valid()) {
      const ir::ValueMeta& was = first.value(node.results[i]).meta;
      const ir::ValueMeta& is = second.value(other.results[i]).meta;
      if (!same_geometry(was, is)) {
        return place + ": it returned " + ir::print_type(was) + " and returns " +
               ir::print_type(is);
      }
    }
  }
  return std::nullopt;
}

Difference between(const ir::Graph& first, const ir::Graph& second) {
  const std::size_t nodes = std::min(first.nodes().size(), second.nodes().size());
  for (std::size_t i = 0; i < nodes; ++i) {
    if (auto difference = between_nodes(first, second, i)) {
      return difference;
    }
  }
  if (first.nodes().size() != second.nodes().size()) {
    const bool more = first.nodes().size() > nodes;
    return ir::print_place(more ? first : second, nodes) +
           (more ? ", is no longer called" : ", was not called");
  }
  const auto same = [](const ir::Output& a, const ir::Output& b) { return a.value == b.value; };
  if (!std::equal(first.outputs().begin(),
                  first.outputs().end(),
                  second.outputs().begin(),
                  second.outputs().end(),
                  same)) {
    return "it returns other values";
  }
  return std::nullopt;
}

// Who uses a captured tensor first, for people.
std::string user_of(const ir::Graph& graph, ir::ValueId value) {
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    bool uses = false;
    ir::for_each_operand(graph.nodes()[i], [&](ir::ValueId id) { uses = uses || id == value; });
    if (uses) {
      return ir::print_place(graph, i);
    }
  }
  return "what it returns";
}

bool has_same_elements(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype() || a.device() != b.device()) {
    return false;
  }
  if (a.is_complex()) {
    return has_same_elements(at::view_as_real(a.resolve_conj()),
                             at::view_as_real(b.resolve_conj()));
  }
  return at::equal(a, b) || (a.is_floating_point() && at::allclose(a, b, 0, 0, /*nan=*/true));
}

}  // namespace

Difference first_difference(const Recording& first, const Recording& second) {
  if (auto difference = between(first.graph, second.graph)) {
    return difference;
  }
  const std::size_t inputs = first.graph.inputs().size() - first.captured.size();
  for (std::size_t i = 0; i < first.captured.size(); ++i) {
    if (!same_tensor(first.captured[i], second.captured[i]) &&
        !has_same_elements(first.captured[i], second.captured[i])) {
      return user_of(first.graph, first.graph.inputs()[inputs + i].value) +
             ", uses another tensor that is not an input, or one with other elements";
    }
  }
  return std::nullopt;
}

}  // namespace kiln::capture
