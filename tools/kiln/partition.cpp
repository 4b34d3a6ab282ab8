#include "partition.hpp"

#include <ATen/Functions.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "draw.hpp"
#include "json_text.hpp"
#include "kiln/autograd_dispatch/joint.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/verify.hpp"
#include "kiln/partitioner/explain.hpp"
#include "kiln/partitioner/memory.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/program.hpp"

namespace kiln::tool {
namespace {

// The program of an archive and its gradients, with parameters as what they are.
ir::Graph joint_of_archive(const std::string& file) {
  const ExportedProgram program = load_program(file);
  Tensors inputs = program.graph_inputs(program.sample_inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (program.graph.inputs()[i].kind == ir::InputKind::kParameter &&
        at::isFloatingType(inputs[i].scalar_type())) {
      inputs[i] = inputs[i].detach().requires_grad_();
    }
  }
  const capture::Interpreter interpreter(program.graph);
  autograd_dispatch::JointTrace trace = autograd_dispatch::trace_joint(
      [&](const Tensors& shadows) { return interpreter.run(shadows); }, inputs);
  if (!trace.differentiable()) {
    throw Error(ErrorCode::kInvalidArgument,
                file + " has no output that depends on a parameter: there is no backward");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    trace.graph.inputs()[i].kind = program.graph.inputs()[i].kind;
    trace.graph.inputs()[i].name = program.graph.inputs()[i].name;
  }
  return std::move(trace.graph);
}

ir::Graph joint_of(const std::string& file) {
  if (!file.ends_with(".kir")) {
    return joint_of_archive(file);
  }
  ir::Graph graph = ir::parse(read_file(file));
  ir::verify(graph);
  return graph;
}

void print_json(const partitioner::Partition& partition, double milliseconds) {
  nlohmann::json saved = nlohmann::json::array();
  for (const partitioner::SavedValue& value : partitioner::saved_values(partition)) {
    saved.push_back({{"name", value.name},
                     {"bytes", value.bytes},
                     {"type", value.type},
                     {"made_by", value.made_by},
                     {"reason", value.reason}});
  }
  const partitioner::MemoryProfile profile = partitioner::simulate_memory(partition);
  const partitioner::Recomputation again = partitioner::recomputation(partition);
  std::cout << json_text(nlohmann::json{{"saved", saved},
                                        {"saved_bytes", profile.saved},
                                        {"forward_peak_bytes", profile.forward_peak},
                                        {"backward_peak_bytes", profile.backward_peak},
                                        {"recomputed_nodes", again.nodes.size()},
                                        {"recomputed_share", again.share},
                                        {"partition_ms", milliseconds},
                                        {"forward", ir::print(partition.forward)},
                                        {"backward", ir::print(partition.backward)}})
            << "\n";
}

}  // namespace

int show_partition(const PartitionArguments& arguments) {
  using Clock = std::chrono::steady_clock;
  const ir::Graph joint = joint_of(arguments.file);
  const auto start = Clock::now();
  const partitioner::Partition partition =
      partitioner::min_cut_partition(joint, {.memory_budget = arguments.budget});
  const double milliseconds =
      std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  if (!arguments.svg.empty()) {
    write_file_atomically(arguments.svg, draw_dot(partitioner::to_dot(partition)));
  }
  if (arguments.json) {
    print_json(partition, milliseconds);
  } else {
    std::cout << partitioner::explain(partition);
  }
  return 0;
}

}  // namespace kiln::tool
