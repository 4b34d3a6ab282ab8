#include "passes.hpp"

#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/ir/common_subexpressions.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/ir/decompose.hpp"
#include "kiln/ir/functionalize.hpp"
#include "kiln/ir/json.hpp"
#include "kiln/ir/propagate_constants.hpp"
#include "kiln/ir/topological_order.hpp"
#include "kiln/ir/verify.hpp"

namespace kiln::opt {

const std::vector<Pass>& passes() {
  static const std::vector<Pass> all = {
      {"functionalize",
       "mutations become values",
       [](ir::Graph graph) { return ir::functionalize(std::move(graph)); }},
      {"dead-code",
       "leave out what no output needs",
       [](const ir::Graph& graph) { return ir::remove_dead_code(graph); }},
      {"common-subexpressions",
       "compute nothing twice",
       [](const ir::Graph& graph) { return ir::merge_common_subexpressions(graph); }},
      {"decompose",
       "expand what is not in core ATen",
       [](const ir::Graph& graph) { return ir::decompose(graph); }},
      {"decompose-all",
       "expand all that has an expansion, core ATen or not",
       [](const ir::Graph& graph) { return ir::decompose(graph, {.keep = nullptr}); }},
      {"constants",
       "write known integers where they are used",
       [](const ir::Graph& graph) { return ir::propagate_constants(graph); }},
      {"sort",
       "operands before their users",
       [](const ir::Graph& graph) { return ir::sort_topologically(graph); }},
      {"json",
       "to JSON and back",
       [](const ir::Graph& graph) { return ir::from_json(ir::to_json(graph)); }},
  };
  return all;
}

ir::Graph run_passes(ir::Graph graph, const std::string& list) {
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::size_t first = std::min(list.find_first_not_of(' ', begin), end);
    std::size_t last = end;
    while (last > first && list[last - 1] == ' ') {
      --last;
    }
    const std::string name = list.substr(first, last - first);
    begin = end + 1;
    bool found = false;
    for (const Pass& pass : passes()) {
      if (pass.name == name) {
        graph = pass.run(std::move(graph));
        ir::verify(graph);
        found = true;
      }
    }
    if (!found) {
      throw Error(ErrorCode::kInvalidArgument, "there is no pass '" + name + "'");
    }
  }
  return graph;
}

}  // namespace kiln::opt
