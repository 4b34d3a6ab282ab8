#include "kiln/ir/dead_code.hpp"

#include <vector>

#include "kiln/ir/rewrite.hpp"
#include "kiln/ir/verify.hpp"

namespace kiln::ir {

Graph remove_dead_code(const Graph& graph, const DeadCodeOptions& options) {
  std::vector<bool> needed(graph.values().size(), false);
  std::vector<bool> live(graph.nodes().size(), false);
  for (const Output& output : graph.outputs()) {
    if (output.value.valid()) {
      needed[output.value.index()] = true;
    }
  }
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    bool keep = node.effectful || !node.mutates.empty() || (node.random && options.keep_random);
    for (const ValueId result : node.results) {
      keep = keep || (result.valid() && needed[result.index()]);
    }
    live[i] = keep;
    if (keep) {
      for_each_operand(node, [&](ValueId operand) { needed[operand.index()] = true; });
    }
  }
  Rewriter rewriter(graph);
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (live[i]) {
      rewriter.copy(NodeId(i));
    }
  }
  Graph result = rewriter.finish();
  debug_verify(result);
  return result;
}

}  // namespace kiln::ir
