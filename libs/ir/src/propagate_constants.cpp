#include "kiln/ir/propagate_constants.hpp"

#include <set>
#include <string>

#include "kiln/ir/rewrite.hpp"
#include "kiln/ir/specialize.hpp"
#include "kiln/ir/verify.hpp"

namespace kiln::ir {
namespace {

void add_symbols(const Expr& expr, std::set<std::string>* symbols) {
  if (!expr.is_constant()) {
    const std::vector<std::string> found = expr.symbols();
    symbols->insert(found.begin(), found.end());
  }
}

/// Symbols whose values can be read off the inputs.
std::set<std::string> bound_symbols(const Graph& graph) {
  std::set<std::string> symbols;
  for (const Input& input : graph.inputs()) {
    const ValueMeta& meta = graph.value(input.value).meta;
    if (const auto* integer = std::get_if<SymIntMeta>(&meta)) {
      add_symbols(integer->expr, &symbols);
    } else {
      for (const Expr& size : std::get<TensorMeta>(meta).sizes) {
        add_symbols(size, &symbols);
      }
    }
  }
  return symbols;
}

class Propagation {
 public:
  explicit Propagation(const Graph& graph) : source_(graph), bound_(bound_symbols(graph)) {
    for (const auto& [name, range] : graph.symbols()) {
      if (range.low == range.high) {
        fixed_[name] = range.low;
      }
    }
  }

  [[nodiscard]] Graph run() const {
    const Graph specialized = fixed_.empty() ? Graph() : specialize(source_, fixed_);
    const Graph& graph = fixed_.empty() ? source_ : specialized;
    Rewriter rewriter(graph);
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      Node node = graph.nodes()[i];
      for (Argument& argument : node.arguments) {
        std::optional<Argument> known = known_integers(graph, argument);
        argument = known ? *std::move(known) : rewriter.mapped(argument);
      }
      rewriter.replace(NodeId(i), std::move(node));
    }
    return rewriter.finish();
  }

 private:
  [[nodiscard]] std::optional<Expr> known_integer(const Graph& graph, ValueId id) const {
    if (!id.valid() || graph.value(id).is_tensor()) {
      return std::nullopt;
    }
    const Expr& expr = std::get<SymIntMeta>(graph.value(id).meta).expr;
    for (const std::string& name : expr.symbols()) {
      if (!bound_.contains(name)) {
        return std::nullopt;
      }
    }
    return expr;
  }

  [[nodiscard]] std::optional<Argument> known_integers(const Graph& graph,
                                                       const Argument& argument) const {
    if (const auto* value = std::get_if<ValueId>(&argument)) {
      return known_integer(graph, *value);
    }
    const auto* values = std::get_if<std::vector<ValueId>>(&argument);
    if (values == nullptr || values->empty()) {
      return std::nullopt;
    }
    std::vector<Expr> list;
    for (const ValueId value : *values) {
      const std::optional<Expr> expr = known_integer(graph, value);
      if (!expr) {
        return std::nullopt;
      }
      list.push_back(*expr);
    }
    return list;
  }

  const Graph& source_;
  std::set<std::string> bound_;
  Bindings fixed_;
};

}  // namespace

Graph propagate_constants(const Graph& graph) {
  Graph result = Propagation(graph).run();
  debug_verify(result);
  return result;
}

}  // namespace kiln::ir
