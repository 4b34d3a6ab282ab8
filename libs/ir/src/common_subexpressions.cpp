#include "kiln/ir/common_subexpressions.hpp"

#include <unordered_map>
#include <vector>

#include "argument.hpp"
#include "kiln/ir/memory.hpp"
#include "kiln/ir/rewrite.hpp"
#include "kiln/ir/verify.hpp"

namespace kiln::ir {
namespace {

std::size_t hash_of(const Node& node) {
  std::size_t seed = std::hash<std::string>()(node.target);
  for (const Argument& argument : node.arguments) {
    seed = combine_hash(seed, ir::hash_of(argument));
  }
  return seed;
}

bool same_call(const Node& a, const Node& b) {
  if (a.target != b.target || a.arguments.size() != b.arguments.size() ||
      a.results.size() != b.results.size() || a.grad_mode != b.grad_mode ||
      a.autocast != b.autocast) {
    return false;
  }
  for (std::size_t i = 0; i < a.arguments.size(); ++i) {
    if (!identical(a.arguments[i], b.arguments[i])) {
      return false;
    }
  }
  for (std::size_t i = 0; i < a.results.size(); ++i) {
    if (a.results[i].valid() != b.results[i].valid()) {
      return false;
    }
  }
  return true;
}

/// For each memory, whether some node writes it.
std::vector<bool> written_memories(const Graph& graph, const std::vector<std::uint32_t>& memories) {
  std::vector<bool> written(graph.values().size(), false);
  for (const Node& node : graph.nodes()) {
    for (const std::uint32_t argument : node.mutates) {
      for_each_value(node.arguments[argument],
                     [&](ValueId value) { written[memories[value.index()]] = true; });
    }
  }
  return written;
}

}  // namespace

Graph merge_common_subexpressions(const Graph& graph) {
  const std::vector<std::uint32_t> memories = memory_ids(graph);
  const std::vector<bool> written = written_memories(graph, memories);
  std::vector<bool> returned(graph.values().size(), false);
  for (const Output& output : graph.outputs()) {
    if (output.value.valid()) {
      returned[memories[output.value.index()]] = true;
    }
  }

  Rewriter rewriter(graph);
  std::unordered_multimap<std::size_t, NodeId> seen;
  seen.reserve(graph.nodes().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    bool candidate =
        !node.random && !node.effectful && node.mutates.empty() && !node.results.empty();
    for (const ValueId result : node.results) {
      const std::uint32_t memory = result.valid() ? memories[result.index()] : 0;
      candidate = candidate && !(result.valid() && (written[memory] || returned[memory]));
    }
    for_each_operand(node, [&](ValueId operand) {
      candidate = candidate && !written[memories[operand.index()]];
    });
    if (!candidate) {
      rewriter.copy(NodeId(i));
      continue;
    }
    Node made = node;
    for (Argument& argument : made.arguments) {
      argument = rewriter.mapped(argument);
    }
    const std::size_t hash = hash_of(made);
    NodeId earlier;
    for (auto [it, end] = seen.equal_range(hash); it != end; ++it) {
      if (same_call(rewriter.graph().node(it->second), made)) {
        earlier = it->second;
        break;
      }
    }
    if (earlier.valid()) {
      for (std::size_t k = 0; k < node.results.size(); ++k) {
        if (node.results[k].valid()) {
          rewriter.map(node.results[k], rewriter.graph().node(earlier).results[k]);
        }
      }
    } else {
      seen.emplace(hash, rewriter.replace(NodeId(i), std::move(made)));
    }
  }
  Graph result = rewriter.finish();
  debug_verify(result);
  return result;
}

}  // namespace kiln::ir
