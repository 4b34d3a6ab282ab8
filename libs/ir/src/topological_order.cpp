#include "kiln/ir/topological_order.hpp"

#include <functional>
#include <queue>
#include <unordered_map>

#include "kiln/base/error.hpp"
#include "kiln/ir/memory.hpp"
#include "kiln/ir/rewrite.hpp"
#include "kiln/ir/verify.hpp"

namespace kiln::ir {
namespace {

/// Who must come before whom.
class Dependencies {
 public:
  explicit Dependencies(const Graph& graph)
      : successors(graph.nodes().size()), pending(graph.nodes().size(), 0) {
    for (std::uint32_t i = 0; i < graph.nodes().size(); ++i) {
      for_each_operand(graph.nodes()[i], [&](ValueId operand) {
        const NodeId producer = graph.value(operand).producer;
        if (producer.valid()) {
          add(producer.index(), i);
        }
      });
    }
    add_effects(graph);
    add_memory(graph);
  }

  std::vector<std::vector<std::uint32_t>> successors;
  std::vector<std::uint32_t> pending;

 private:
  void add(std::uint32_t before, std::uint32_t after) {
    successors[before].push_back(after);
    ++pending[after];
  }

  void add_effects(const Graph& graph) {
    std::uint32_t last = 0xffffffff;
    for (std::uint32_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      if (node.random || node.effectful || !node.mutates.empty()) {
        if (last != 0xffffffff) {
          add(last, i);
        }
        last = i;
      }
    }
  }

  void add_memory(const Graph& graph) {
    struct Access {
      std::uint32_t writer = 0xffffffff;
      std::vector<std::uint32_t> readers = {};
    };
    const std::vector<std::uint32_t> memories = memory_ids(graph);
    std::unordered_map<std::uint32_t, Access> written;
    for (const Node& node : graph.nodes()) {
      for (const std::uint32_t argument : node.mutates) {
        for_each_value(node.arguments[argument],
                       [&](ValueId value) { written.try_emplace(memories[value.index()]); });
      }
    }
    if (written.empty()) {
      return;
    }
    for (std::uint32_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      for_each_operand(node, [&](ValueId operand) {
        const auto found = written.find(memories[operand.index()]);
        if (found == written.end()) {
          return;
        }
        if (found->second.writer != 0xffffffff && found->second.writer != i) {
          add(found->second.writer, i);
        }
        found->second.readers.push_back(i);
      });
      for (const std::uint32_t argument : node.mutates) {
        for_each_value(node.arguments[argument], [&](ValueId value) {
          Access& access = written[memories[value.index()]];
          for (const std::uint32_t reader : access.readers) {
            if (reader != i) {
              add(reader, i);
            }
          }
          access = {.writer = i};
        });
      }
    }
  }
};

}  // namespace

std::vector<NodeId> topological_order(const Graph& graph) {
  Dependencies dependencies(graph);
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::uint32_t i = 0; i < graph.nodes().size(); ++i) {
    if (dependencies.pending[i] == 0) {
      ready.push(i);
    }
  }
  std::vector<NodeId> order;
  order.reserve(graph.nodes().size());
  while (!ready.empty()) {
    const std::uint32_t next = ready.top();
    ready.pop();
    order.push_back(NodeId(next));
    for (const std::uint32_t successor : dependencies.successors[next]) {
      if (--dependencies.pending[successor] == 0) {
        ready.push(successor);
      }
    }
  }
  if (order.size() != graph.nodes().size()) {
    std::size_t stuck = 0;
    while (dependencies.pending[stuck] == 0) {
      ++stuck;
    }
    throw Error(ErrorCode::kInvalidArgument,
                "node " + std::to_string(stuck) + " (" + graph.nodes()[stuck].target +
                    ") is in a dependency cycle or depends on one");
  }
  return order;
}

Graph sort_topologically(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const NodeId node : topological_order(graph)) {
    rewriter.copy(node);
  }
  Graph result = rewriter.finish();
  debug_verify(result);
  return result;
}

}  // namespace kiln::ir
