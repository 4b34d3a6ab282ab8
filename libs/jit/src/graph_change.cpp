#include "graph_change.hpp"

#include <algorithm>
#include <string_view>

#include "kiln/ir/print.hpp"

namespace kiln {
namespace {

constexpr std::string_view kDecide = ": pass what decides it as an argument";

// Where nothing is differentiated, dropout draws its mask into an empty tensor.
bool draws_mask(const ir::Graph& graph, const ir::Node& node) {
  if (!node.target.starts_with("aten.bernoulli")) {
    return false;
  }
  bool is_fresh = false;
  ir::for_each_operand(node, [&](ir::ValueId operand) {
    const ir::NodeId producer = graph.value(operand).producer;
    is_fresh = is_fresh ||
               (producer.valid() && graph.node(producer).target.find("empty") != std::string::npos);
  });
  return is_fresh;
}

// Batch normalization that takes the statistics of its batch, and dropout that drops.
bool is_training(const ir::Graph& graph, const ir::Node& node) {
  if (node.target.find("dropout") != std::string::npos || draws_mask(graph, node)) {
    return true;
  }
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    const bool* value = std::get_if<bool>(&node.arguments[i]);
    const std::string name = ir::argument_name(node, i);
    if (value != nullptr && *value && (name == "training" || name == "train")) {
      return true;
    }
  }
  return false;
}

std::vector<const ir::Node*> training_nodes(const ir::Graph& graph) {
  std::vector<const ir::Node*> found;
  for (const ir::Node& node : graph.nodes()) {
    if (!node.backward && is_training(graph, node)) {
      found.push_back(&node);
    }
  }
  return found;
}

bool is_value(const ir::Argument& argument) {
  return std::holds_alternative<ir::ValueId>(argument) ||
         std::holds_alternative<std::vector<ir::ValueId>>(argument);
}

// By text, in which a NaN is equal to itself, and values by what they are called.
bool is_same_argument(const ir::Graph& before,
                      const ir::Argument& was,
                      const ir::Graph& now,
                      const ir::Argument& is) {
  if (was.index() != is.index()) {
    return false;
  }
  if (is_value(was)) {
    return was == is;
  }
  if (const auto* body = std::get_if<ir::SubgraphRef>(&was)) {
    return !change_of_operators(before.subgraphs()[body->index],
                                now.subgraphs()[std::get<ir::SubgraphRef>(is).index]);
  }
  return ir::print_argument(before, was) == ir::print_argument(now, is);
}

std::optional<std::string> change_of_node(const ir::Graph& before,
                                          const ir::Node& was,
                                          const ir::Graph& now,
                                          const ir::Node& is) {
  for (std::size_t i = 0; i < std::min(was.arguments.size(), is.arguments.size()); ++i) {
    const ir::Argument& old_argument = was.arguments[i];
    const ir::Argument& new_argument = is.arguments[i];
    if (is_same_argument(before, old_argument, now, new_argument)) {
      continue;
    }
    if (std::holds_alternative<ir::SubgraphRef>(old_argument)) {
      return place_of(was) + " has another body" + std::string(kDecide);
    }
    if (is_value(old_argument) || is_value(new_argument)) {
      return place_of(was) + " takes another tensor" + std::string(kDecide);
    }
    return place_of(node_with_number(was, first_users(before))) + " had " +
           ir::print_argument(before, old_argument) + ", now has " +
           ir::print_argument(now, new_argument) + ": pass it as an argument";
  }
  if (was.grad_mode != is.grad_mode || was.autocast != is.autocast) {
    return place_of(was) + " runs in another grad mode, or with another autocast" +
           std::string(kDecide);
  }
  for (std::size_t i = 0; i < std::min(was.results.size(), is.results.size()); ++i) {
    if (was.results[i].valid() && is.results[i].valid()) {
      const std::string old_type = ir::print_type(before.value(was.results[i]).meta);
      const std::string new_type = ir::print_type(now.value(is.results[i]).meta);
      if (old_type != new_type) {
        return place_of(was) + " returned " + old_type + ", now returns " + new_type +
               std::string(kDecide);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::string place_of(const ir::Node& node) {
  const std::string& source = node.provenance.source;
  const std::string& module = node.provenance.module_path;
  return node.target.substr(0, node.target.rfind('.')) + (source.empty() ? "" : " at " + source) +
         (module.empty() ? "" : " in " + module);
}

std::vector<const ir::Node*> first_users(const ir::Graph& graph) {
  std::vector<const ir::Node*> users(graph.values().size(), nullptr);
  for (const ir::Node& node : graph.nodes()) {
    ir::for_each_operand(node, [&](ir::ValueId operand) {
      const ir::Node*& user = users[operand.index()];
      user = user == nullptr ? &node : user;
    });
  }
  return users;
}

const ir::Node& node_with_number(const ir::Node& node,
                                 const std::vector<const ir::Node*>& first_users) {
  if (node.target != "aten.scalar_tensor.default") {
    return node;
  }
  const ir::Node* user = first_users[node.results[0].index()];
  return user == nullptr ? node : *user;
}

bool has_same_operators(const ir::Graph& a, const ir::Graph& b) {
  return std::ranges::equal(a.nodes(), b.nodes(), [](const ir::Node& x, const ir::Node& y) {
    return x.target == y.target;
  });
}

std::optional<std::string> change_of_training(const ir::Graph& before, const ir::Graph& now) {
  const std::vector<const ir::Node*> was = training_nodes(before), is = training_nodes(now);
  if (was.size() == is.size()) {
    return std::nullopt;
  }
  const auto& longer = was.size() > is.size() ? was : is;
  const auto& shorter = was.size() > is.size() ? is : was;
  std::size_t first = 0;
  while (first < shorter.size() && longer[first]->target == shorter[first]->target) {
    ++first;
  }
  return "training changed in a module inside the lambda (" + place_of(*longer[first]) +
         (was.size() > is.size() ? " was" : " is now") + " in training mode): pass the module";
}

std::optional<std::string> change_of_operators(const ir::Graph& before, const ir::Graph& now) {
  const auto was = before.nodes(), is = now.nodes();
  const std::size_t both = std::min(was.size(), is.size());
  for (std::size_t i = 0; i < both; ++i) {
    if (was[i].target == is[i].target) {
      if (auto change = change_of_node(before, was[i], now, is[i])) {
        return change;
      }
      continue;
    }
    if (was.size() > is.size() && was[i + 1].target == is[i].target) {
      return place_of(was[i]) + " is no longer called" + std::string(kDecide);
    }
    if (is.size() > was.size() && is[i + 1].target == was[i].target) {
      return place_of(is[i]) + " is called, and was not before" + std::string(kDecide);
    }
    return place_of(was[i]) + " was called where " + place_of(is[i]) + " is called now" +
           std::string(kDecide);
  }
  if (was.size() != is.size()) {
    return was.size() > both
               ? place_of(was[both]) + " is no longer called" + std::string(kDecide)
               : place_of(is[both]) + " is called, and was not before" + std::string(kDecide);
  }
  return std::nullopt;
}

}  // namespace kiln
