#include <torch/version.h>

#include <iostream>
#include <string>
#include <utility>

#include "kiln/codegen/stages.hpp"
#include "kiln/generator_input.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/retarget.hpp"
#include "kiln/program.hpp"
#include "show_program.hpp"

namespace kiln::tool {
namespace {

std::string text_of(const ir::Graph& graph,
                    const std::string& stage,
                    const codegen::Options& options) {
  return stage == "loops"      ? codegen::print_loops(graph, options)
         : stage == "schedule" ? codegen::print_schedule(graph, options)
                               : ir::print(graph);
}

}  // namespace

int show_stage(const ProgramArguments& arguments) {
  const ExportedProgram program = load_program(arguments.file);
  const Weights weights = weights_of(program);
  // As `kiln compile` has them: the source is to be that of its package.
  codegen::Options options{.isa = arguments.isa,
                           .bind_constants = true,
                           .constants = weights.data,
                           .store_folded = true,
                           .in_spec = input_spec_of(program),
                           .out_spec = program.out_spec,
                           .libtorch = {TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR}};
  options.arch = arguments.arch;
  ir::Graph graph = with_all_outputs(program);
  if (!arguments.arch.empty() && codegen::device_of(graph) != ir::DeviceType::kCuda) {
    graph = ir::retarget(graph, ir::DeviceType::kCuda);
  }
  codegen::PreparedGraphs graphs = codegen::prepare(graph, options);
  if (arguments.stage == "source") {
    std::cout << codegen::print_source(std::move(graphs), options);
    return 0;
  }
  std::cout << text_of(graphs.graph, arguments.stage, options);
  if (graphs.folding) {
    std::cout << "\n# What is computed from constants, once:\n"
              << text_of(*graphs.folding, arguments.stage, options);
  }
  return 0;
}

}  // namespace kiln::tool
