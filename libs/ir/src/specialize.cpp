#include "kiln/ir/specialize.hpp"

#include <string>

#include "trace_structure.hpp"

namespace kiln::ir {

Graph specialize(Graph graph, const Bindings& values) {
  const auto value_of = [&](const std::string& name) {
    const auto value = values.find(name);
    return value == values.end() ? Expr::symbol(name) : Expr(value->second);
  };
  const auto fix = [&](Expr& expr) {
    if (!expr.is_constant()) {
      expr = expr.substitute(value_of);
    }
  };
  for (std::uint32_t i = 0; i < graph.values().size(); ++i) {
    Value& value = graph.value(ValueId(i));
    if (!value.is_tensor()) {
      fix(std::get<SymIntMeta>(value.meta).expr);
      continue;
    }
    TensorMeta& meta = value.tensor();
    for (auto* list : {&meta.sizes, &meta.strides}) {
      for (Expr& expr : *list) {
        fix(expr);
      }
    }
    fix(meta.offset);
  }
  for (std::uint32_t i = 0; i < graph.nodes().size(); ++i) {
    for (Argument& argument : graph.node(NodeId(i)).arguments) {
      for_each_integer(argument, fix);
      if (const auto* real = std::get_if<RealExpr>(&argument)) {
        argument = argument_of(real->substitute(value_of));
      }
    }
  }
  for (Graph& nested : graph.subgraphs()) {
    nested = specialize(std::move(nested), values);
  }
  for (const auto& [name, value] : values) {
    graph.symbols().erase(name);
    graph.hints().erase(name);
  }
  for (Guard& guard : graph.guards()) {
    fix(guard.left);
    fix(guard.right);
  }
  std::erase_if(graph.guards(), [](const Guard& guard) { return guard.is_constant(); });
  return graph;
}

}  // namespace kiln::ir
