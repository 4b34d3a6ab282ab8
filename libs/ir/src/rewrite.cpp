#include "kiln/ir/rewrite.hpp"

#include "kiln/base/error.hpp"

namespace kiln::ir {

Rewriter::Rewriter(const Graph& source)
    : source_(source), graph_(source.name()), values_(source.values().size()) {
  graph_.reserve(source.nodes().size(), source.values().size());
  graph_.symbols() = source.symbols();
  graph_.hints() = source.hints();
  graph_.guards() = source.guards();
  graph_.subgraphs().assign(source.subgraphs().begin(), source.subgraphs().end());
  for (const Value& value : source.values()) {
    if (const auto* tensor = std::get_if<TensorMeta>(&value.meta)) {
      graph_.reserve_storage(tensor->storage);
    }
  }
  for (const Input& input : source.inputs()) {
    const Value& value = source.value(input.value);
    map(input.value, graph_.add_input(value.name, value.meta, input.kind, input.name));
  }
}

Argument Rewriter::mapped(const Argument& argument) const {
  const auto translate = [this](ValueId old) {
    const ValueId made = mapped(old);
    ensure(made.valid() || !old.valid(), "a rewritten graph uses a value that was left out");
    return made;
  };
  if (const auto* value = std::get_if<ValueId>(&argument)) {
    return translate(*value);
  }
  if (const auto* values = std::get_if<std::vector<ValueId>>(&argument)) {
    std::vector<ValueId> made;
    made.reserve(values->size());
    for (const ValueId value : *values) {
      made.push_back(translate(value));
    }
    return made;
  }
  return argument;
}

NodeId Rewriter::copy(NodeId id) {
  Node node = source_.node(id);
  for (Argument& argument : node.arguments) {
    if (std::holds_alternative<ValueId>(argument) ||
        std::holds_alternative<std::vector<ValueId>>(argument)) {
      argument = mapped(argument);
    }
  }
  return replace(id, std::move(node));
}

NodeId Rewriter::replace(NodeId old, Node node) {
  const std::vector<ValueId>& results = source_.node(old).results;
  std::vector<std::optional<ValueMeta>> metas;
  std::vector<std::string> names;
  metas.reserve(results.size());
  names.reserve(results.size());
  for (const ValueId result : results) {
    if (result.valid()) {
      metas.emplace_back(source_.value(result).meta);
      names.push_back(source_.value(result).name);
    } else {
      metas.emplace_back();
      names.emplace_back();
    }
  }
  // A view is where its base is, which may be another value than it was.
  for (const Alias& alias : node.aliases) {
    const auto* base = std::get_if<ValueId>(&node.arguments[alias.argument]);
    if (base != nullptr && graph_.tensor(*base).storage.valid() && metas[alias.result]) {
      std::get<TensorMeta>(*metas[alias.result]).storage = graph_.tensor(*base).storage;
    }
  }
  const NodeId made = graph_.add_node(std::move(node), std::move(metas), names);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].valid()) {
      map(results[i], graph_.node(made).results[i]);
    }
  }
  return made;
}

Graph Rewriter::finish() {
  for (Output output : source_.outputs()) {
    const ValueId made = mapped(output.value);
    ensure(made.valid() || !output.value.valid(),
           "a rewritten graph returns a value that was left out");
    output.value = made;
    graph_.add_output(std::move(output));
  }
  return std::move(graph_);
}

}  // namespace kiln::ir
