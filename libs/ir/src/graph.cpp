#include "kiln/ir/graph.hpp"

#include <algorithm>

#include "kiln/base/error.hpp"

namespace kiln::ir {
namespace {

/// "add" for "aten.add_.Tensor": what a result is called that nobody named.
std::string name_from(const std::string& target) {
  const std::size_t first = target.find('.');
  std::string name = first == std::string::npos
                         ? target
                         : target.substr(first + 1, target.find('.', first + 1) - first - 1);
  while (!name.empty() && name.back() == '_') {
    name.pop_back();
  }
  return name.empty() ? "value" : name;
}

}  // namespace

std::vector<Expr> contiguous_strides(std::span<const Expr> sizes) {
  std::vector<Expr> strides(sizes.size(), Expr(1));
  for (std::size_t i = sizes.size(); i-- > 1;) {
    // Libtorch counts an empty dimension as one; a symbolic dimension is taken to be at least that.
    const bool empty = sizes[i].constant() == 0;
    strides[i - 1] = empty ? strides[i] : strides[i] * sizes[i];
  }
  return strides;
}

Expr element_count(std::span<const Expr> sizes) {
  Expr count = 1;
  for (const Expr& size : sizes) {
    count = count * size;
  }
  return count;
}

std::string_view to_string(InputKind kind) {
  switch (kind) {
    case InputKind::kUser: return "user";
    case InputKind::kParameter: return "parameter";
    case InputKind::kBuffer: return "buffer";
    case InputKind::kConstant: return "constant";
    case InputKind::kTangent: return "tangent";
    case InputKind::kSeed: return "seed";
    case InputKind::kSaved: return "saved";
  }
  return "unknown";
}

std::string_view to_string(OutputKind kind) {
  switch (kind) {
    case OutputKind::kUser: return "user";
    case OutputKind::kMutation: return "mutation";
    case OutputKind::kGradient: return "gradient";
    case OutputKind::kSaved: return "saved";
  }
  return "unknown";
}

std::string Graph::unique_name(std::string name) {
  for (char& c : name) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '$';
    c = allowed ? c : '_';
  }
  const auto [found, fresh] = names_.try_emplace(name, 1);
  if (fresh) {
    return name;
  }
  while (true) {
    std::string candidate = name + '_' + std::to_string(names_[name]++);
    if (names_.try_emplace(candidate, 1).second) {
      return candidate;
    }
  }
}

ValueId Graph::add_value(std::string name, ValueMeta meta, NodeId producer, std::uint32_t index) {
  if (const auto* tensor = std::get_if<TensorMeta>(&meta)) {
    reserve_storage(tensor->storage);
  }
  const ValueId id(values_.size());
  values_.push_back({.name = unique_name(std::move(name)),
                     .meta = std::move(meta),
                     .producer = producer,
                     .result_index = index});
  return id;
}

ValueId Graph::add_input(std::string value_name, ValueMeta meta, InputKind kind, std::string name) {
  if (value_name.empty()) {
    value_name = "input";
  }
  const ValueId value = add_value(std::move(value_name), std::move(meta), NodeId(), 0);
  inputs_.push_back({.value = value, .kind = kind, .name = std::move(name)});
  return value;
}

NodeId Graph::add_node(Node node,
                       std::vector<std::optional<ValueMeta>> metas,
                       std::span<const std::string> names) {
  const NodeId id(nodes_.size());
  node.results.assign(metas.size(), ValueId());
  for (std::size_t i = 0; i < metas.size(); ++i) {
    if (metas[i]) {
      std::string name = i < names.size() && !names[i].empty() ? names[i] : name_from(node.target);
      node.results[i] =
          add_value(std::move(name), *std::move(metas[i]), id, static_cast<std::uint32_t>(i));
    }
  }
  nodes_.push_back(std::move(node));
  return id;
}

ValueId Graph::add_node(std::string target, std::vector<Argument> arguments, TensorMeta result) {
  Node made;
  made.target = std::move(target);
  made.arguments = std::move(arguments);
  std::vector<std::optional<ValueMeta>> metas;
  metas.emplace_back(std::move(result));
  return node(add_node(std::move(made), std::move(metas))).results[0];
}

void Graph::reserve(std::size_t nodes, std::size_t values) {
  nodes_.reserve(nodes);
  values_.reserve(values);
  names_.reserve(values);
}

std::uint32_t Graph::add_subgraph(Graph graph) {
  subgraphs_.push_back(std::move(graph));
  return static_cast<std::uint32_t>(subgraphs_.size() - 1);
}

void Graph::reserve_storage(StorageId id) {
  if (id.valid()) {
    next_storage_ = std::max(next_storage_, id.index() + 1);
  }
}

}  // namespace kiln::ir
