#include "passes.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/codegen/stages.hpp"
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

namespace {

// A graph on a GPU is planned for the architecture that `isa` names.
codegen::Options options_for(const std::string& isa) {
  return {.isa = isa, .arch = {isa}, .bind_constants = true};
}

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::size_t first = std::min(list.find_first_not_of(' ', begin), end);
    std::size_t last = end;
    while (last > first && list[last - 1] == ' ') {
      --last;
    }
    names.push_back(list.substr(first, last - first));
    begin = end + 1;
  }
  return names;
}

void run_stage(const Stage& stage, const std::string& isa, PassResult& result) {
  if (isa.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "'" + stage.name + "' needs an instruction set, such as neon");
  }
  if (stage.print) {
    result.text = stage.print(result.graph, isa);
  } else {
    result.graph = stage.run(result.graph, isa);
  }
}

}  // namespace

const std::vector<Stage>& stages() {
  static const std::vector<Stage> all = {
      {"prepare",
       "what codegen schedules: layouts, packed weights, constants folded",
       [](const ir::Graph& graph, const std::string& isa) {
         return codegen::prepare(graph, options_for(isa)).graph;
       },
       nullptr},
      {"fold",
       "what computes the constants that `prepare` splits off",
       [](const ir::Graph& graph, const std::string& isa) {
         std::optional<ir::Graph> folding = codegen::prepare(graph, options_for(isa)).folding;
         if (!folding) {
           throw Error(ErrorCode::kInvalidArgument, "no constants are folded");
         }
         return *std::move(folding);
       },
       nullptr},
      {"lower",
       "print the loop program of each node",
       nullptr,
       [](const ir::Graph& graph, const std::string& isa) {
         return codegen::print_loops(graph, options_for(isa));
       }},
      {"schedule",
       "print the buffers and steps of the schedule",
       nullptr,
       [](const ir::Graph& graph, const std::string& isa) {
         return codegen::print_schedule(graph, options_for(isa));
       }},
  };
  return all;
}

PassResult run_passes(ir::Graph graph, const std::string& list, const std::string& isa) {
  PassResult result{std::move(graph), ""};
  for (const std::string& name : names_in(list)) {
    const auto pass = std::ranges::find(passes(), name, &Pass::name);
    const auto stage = std::ranges::find(stages(), name, &Stage::name);
    if (pass == passes().end() && stage == stages().end()) {
      throw Error(ErrorCode::kInvalidArgument, "there is no pass '" + name + "'");
    }
    if (!result.text.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "'" + name + "' comes after a pass that prints");
    }
    if (pass != passes().end()) {
      result.graph = pass->run(std::move(result.graph));
    } else {
      run_stage(*stage, isa, result);
    }
    ir::verify(result.graph);
  }
  return result;
}

}  // namespace kiln::opt
