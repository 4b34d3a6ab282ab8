#include "passes/split_constants.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "graph/aliases.hpp"
#include "graph/constants.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/ir/rewrite.hpp"
#include "libtorch/call_path.hpp"
#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::NodeId;
using ir::ValueId;

namespace {

// How much larger than its constants a folded value may be, unless it is small anyway.
constexpr std::int64_t kMaxGrowth = 4;
constexpr std::int64_t kSmallBytes = 1 << 20;

std::int64_t bytes_of(const ir::TensorMeta& meta) {
  return ir::element_count(meta.sizes).constant().value_or(0) *
         static_cast<std::int64_t>(ir::size_of(meta.dtype));
}

class Splitter {
 public:
  explicit Splitter(const ir::Graph& graph)
      : graph_(graph),
        known_(fixed_inputs(graph)),
        from_bytes_(graph.values().size()),
        folded_(graph.values().size()),
        runs_(graph.nodes().size()) {
    for (const ir::Input& input : graph.inputs()) {
      if (known_[input.value.index()]) {
        from_bytes_[input.value.index()] = bytes_of(graph.tensor(input.value));
      }
    }
  }

  SplitProgram run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      classify(NodeId(i));
    }
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (runs_[i]) {
        for_each_operand(graph_.node(NodeId(i)), [&](ValueId value) { need(value); });
      }
    }
    for (const ir::Output& output : graph_.outputs()) {
      if (output.value.valid()) {
        need(output.value);
      }
    }
    return {run_graph(), fold_graph()};
  }

 private:
  // A weight times a size is another one at each size.
  static bool mentions_symbols(const ir::Argument& argument) {
    const auto is_symbolic = [](const ir::Expr& expr) { return !expr.is_constant(); };
    if (const auto* list = std::get_if<std::vector<ir::Expr>>(&argument)) {
      return std::ranges::any_of(*list, is_symbolic);
    }
    const auto* integer = std::get_if<ir::Expr>(&argument);
    return std::holds_alternative<ir::RealExpr>(argument) ||
           (integer != nullptr && is_symbolic(*integer));
  }

  bool is_pure(const ir::Node& node) const {
    const bool plain = !node.random && !node.effectful && node.mutates.empty() &&
                       std::ranges::none_of(node.arguments, mentions_symbols);
    return plain && std::ranges::all_of(node.results, [&](ValueId result) {
             return !result.valid() ||
                    (graph_.value(result).is_tensor() &&
                     ir::element_count(graph_.tensor(result).sizes).is_constant());
           });
  }

  // A node is known if its operands are; one without operands goes wherever it is wanted.
  void classify(NodeId id) {
    const ir::Node& node = graph_.node(id);
    bool known = is_pure(node);
    std::int64_t bytes = 0;
    for_each_operand(node, [&](ValueId value) {
      known = known && known_[value.index()];
      bytes += from_bytes_[value.index()];
    });
    if (known && !has_lowering(node.target)) {
      known = choose_call_path(graph_, node) != CallPath::kProxy;
    }
    runs_[id.index()] = !known;
    for (const ValueId result : node.results) {
      if (result.valid()) {
        known_[result.index()] = known;
        from_bytes_[result.index()] = bytes;
      }
    }
  }

  bool is_view(const ir::Node& node) const { return !aliases_of(graph_, node).empty(); }

  // Folded constants have no gaps; what libtorch computes may (select_scatter of a slice).
  bool is_gapless(ValueId value) const {
    const ir::TensorMeta& meta = graph_.tensor(value);
    return is_dense(meta.sizes, meta.strides);
  }

  bool is_worth_it(ValueId value) const {
    const std::int64_t from = from_bytes_[value.index()];
    const std::int64_t bytes = bytes_of(graph_.tensor(value));
    return from > 0 && bytes > 0 && bytes <= std::max(kSmallBytes, from * kMaxGrowth);
  }

  // The run uses `value`: it is folded, or computed there after all.
  void need(ValueId value) {
    const NodeId producer = graph_.value(value).producer;
    if (!producer.valid() || !known_[value.index()] || runs_[producer.index()] ||
        folded_[value.index()]) {
      return;
    }
    const ir::Node& node = graph_.node(producer);
    if (!is_view(node) && is_worth_it(value) && is_gapless(value)) {
      folded_[value.index()] = true;
      return;
    }
    runs_[producer.index()] = true;
    for_each_operand(node, [&](ValueId operand) { need(operand); });
  }

  ir::Graph fold_graph() const {
    ir::Rewriter rewriter(graph_);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      // Results of a node are known together; an assertion has none.
      const std::vector<ValueId>& results = graph_.node(NodeId(i)).results;
      if (std::ranges::any_of(
              results, [&](ValueId value) { return value.valid() && known_[value.index()]; })) {
        rewriter.copy(NodeId(i));
      }
    }
    ir::Graph& fold = rewriter.graph();
    for_each_folded([&](ValueId value) { fold.add_output({rewriter.mapped(value)}); });
    // There are no inputs to read a size from.
    std::erase_if(fold.inputs(), [](const ir::Input& input) { return !is_constant(input.kind); });
    fold.symbols().clear();
    fold.hints().clear();
    fold.guards().clear();
    return remove_dead_code(fold);
  }

  ir::Graph run_graph() const {
    ir::Rewriter rewriter(graph_);
    for_each_folded([&](ValueId value) {
      ir::TensorMeta meta = graph_.tensor(value);
      meta.strides = dense_strides(meta);
      meta.offset = 0;
      const std::string name = "folded_" + graph_.value(value).name;
      rewriter.map(value, rewriter.graph().add_input(name, meta, ir::InputKind::kConstant, name));
    });
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (runs_[i]) {
        rewriter.copy(NodeId(i));
      }
    }
    return rewriter.finish();
  }

  template <class Visit>
  void for_each_folded(Visit&& visit) const {
    for (std::size_t i = 0; i < folded_.size(); ++i) {
      if (folded_[i]) {
        visit(ValueId(i));
      }
    }
  }

  const ir::Graph& graph_;
  std::vector<bool> known_;               // By value: depends on constants alone.
  std::vector<std::int64_t> from_bytes_;  // By value: of the constants that it is made of.
  std::vector<bool> folded_;              // By value: an output of `fold`.
  std::vector<bool> runs_;                // By node: in `run`.
};

}  // namespace

SplitProgram split_constants(const ir::Graph& graph) {
  return Splitter(graph).run();
}

}  // namespace kiln::codegen
