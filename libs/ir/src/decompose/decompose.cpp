#include "kiln/ir/decompose.hpp"

#include <algorithm>

#include "../functional_signature.hpp"
#include "expansion.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/rewrite.hpp"
#include "kiln/ir/verify.hpp"

namespace kiln::ir {
namespace {

const Decompositions& table() {
  static const Decompositions all = [] {
    Decompositions result;
    add_arithmetic_decompositions(result);
    add_activation_decompositions(result);
    add_activation_gradient_decompositions(result);
    add_loss_decompositions(result);
    add_reduction_decompositions(result);
    add_normalization_decompositions(result);
    add_structure_decompositions(result);
    return result;
  }();
  return all;
}

/// Whether formulas over real numbers, and views of plain elements, say what `node` does.
bool is_covered(const Graph& graph, const Node& node, bool any_type) {
  bool covered = node.mutates.empty() && !node.random && !node.effectful && !node.results.empty();
  const auto check = [&](ValueId id) {
    if (!graph.value(id).is_tensor()) {
      covered = false;
      return;
    }
    const TensorMeta& meta = graph.tensor(id);
    covered = covered && !is_complex(meta.dtype) && !meta.conjugate && !meta.negative;
  };
  for_each_operand(node, check);
  for (const ValueId result : node.results) {
    if (result.valid()) {
      check(result);
    }
  }
  const ValueId first = node.results.empty() ? ValueId() : node.results[0];
  return covered && (any_type || (first.valid() && is_floating_point(graph.tensor(first).dtype)));
}

/// One expansion, written into a graph of its own first: the order in which C++ evaluates the terms
/// of a formula is the compiler's choice, and what comes out must not be.
class Expander {
 public:
  Expander(const Graph& source, Rewriter& rewriter, NodeId id)
      : source_(source), rewriter_(rewriter), node_(source.node(id)) {}

  /// False if the node must stay as it is.
  bool run(const Decomposition& decomposition) {
    if (!is_covered(source_, node_, decomposition.any_type)) {
      return false;
    }
    Node local = node_;
    for (Argument& argument : local.arguments) {
      if (auto* value = std::get_if<ValueId>(&argument)) {
        *value = borrowed(*value);
      } else if (auto* values = std::get_if<std::vector<ValueId>>(&argument)) {
        std::transform(values->begin(), values->end(), values->begin(), [&](ValueId item) {
          return borrowed(item);
        });
      }
    }
    std::vector<std::optional<TensorMeta>> metas;
    for (const ValueId result : node_.results) {
      metas.push_back(result.valid() ? std::optional(source_.tensor(result)) : std::nullopt);
    }
    Expansion expansion(scratch_, local, metas);
    const Expanded terms = expanded(decomposition, expansion);
    if (!terms) {
      return false;
    }
    for (std::size_t i = 0; i < metas.size(); ++i) {
      if (metas[i]) {
        take(expansion.like((*terms)[i], *metas[i]).id, node_.results[i]);
      }
    }
    return true;
  }

 private:
  static Expanded expanded(const Decomposition& decomposition, Expansion& expansion) {
    try {
      return decomposition.expand(expansion);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) {
        throw;
      }
      return std::nullopt;
    }
  }

  /// An operand, as an input of the graph of its own.
  ValueId borrowed(ValueId old) {
    if (!old.valid()) {
      return {};
    }
    const ValueId made = rewriter_.mapped(old);
    const auto known = std::find(taken_.begin(), taken_.end(), made);
    if (known != taken_.end()) {
      return ValueId(static_cast<std::size_t>(known - taken_.begin()));
    }
    taken_.push_back(made);
    return scratch_.add_input({}, rewriter_.graph().value(made).meta);
  }

  /// `value`, and before it what it is computed from, in the order of their arguments.
  ValueId copied(ValueId value) {
    taken_.resize(scratch_.values().size());
    if (taken_[value.index()].valid()) {
      return taken_[value.index()];
    }
    Node node = scratch_.node(scratch_.value(value).producer);
    if (node.signature.empty()) {
      node.signature = functional_signature(node.target);
    }
    for (Argument& argument : node.arguments) {
      if (auto* operand = std::get_if<ValueId>(&argument)) {
        *operand = copied(*operand);
      } else if (auto* operands = std::get_if<std::vector<ValueId>>(&argument)) {
        for (ValueId& item : *operands) {
          item = copied(item);
        }
      }
    }
    Graph& graph = rewriter_.graph();
    TensorMeta meta = scratch_.tensor(value);
    meta.storage = node.aliases.empty()
                       ? graph.new_storage()
                       : graph.tensor(std::get<ValueId>(node.arguments[0])).storage;
    std::vector<std::optional<ValueMeta>> metas;
    metas.emplace_back(std::move(meta));
    const NodeId id = graph.add_node(std::move(node), std::move(metas));
    return taken_[value.index()] = graph.node(id).results[0];
  }

  void take(ValueId value, ValueId stands_for) {
    const ValueId made = copied(value);
    Graph& graph = rewriter_.graph();
    if (scratch_.value(value).producer.valid()) {
      graph.value(made).tensor().requires_grad = source_.tensor(stands_for).requires_grad;
      graph.rename(made, source_.value(stands_for).name);
    }
    rewriter_.map(stands_for, made);
  }

  const Graph& source_;
  Rewriter& rewriter_;
  const Node& node_;
  Graph scratch_;
  std::vector<ValueId> taken_;  // By value of the scratch graph: the one in the rewriter's.
};

}  // namespace

Graph decompose(const Graph& graph, const DecomposeOptions& options) {
  Rewriter rewriter(graph);
  for (Graph& subgraph : rewriter.graph().subgraphs()) {
    subgraph = decompose(subgraph, options);
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const std::string& target = graph.nodes()[i].target;
    const bool simple = !table().contains(target) || (options.keep && options.keep(target));
    if (simple || !Expander(graph, rewriter, NodeId(i)).run(table().at(target))) {
      rewriter.copy(NodeId(i));
    }
  }
  Graph result = rewriter.finish();
  debug_verify(result);
  return result;
}

std::vector<std::string_view> decomposed_targets() {
  std::vector<std::string_view> targets;
  for (const auto& [target, decomposition] : table()) {
    targets.push_back(target);
  }
  std::sort(targets.begin(), targets.end());
  return targets;
}

}  // namespace kiln::ir
