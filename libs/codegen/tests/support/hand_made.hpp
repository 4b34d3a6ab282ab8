// Schedules without a scheduler: every node is an extern call, but for views, which are locations,
// and `aten.relu.default`, which is a kernel.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "driver/compile_schedule.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::codegen::testing {

inline const char* const kReluKernel = R"(
extern "C" void KILN_KERNEL(void* const* buffers, const long long* sizes) {
  float* const to = (float*)buffers[0];
  const float* const from = (const float*)buffers[1];
  for (long long i = 0; i < sizes[0]; ++i) to[i] = from[i] > 0 ? from[i] : 0;
}
)";

/// Whether the hand-made scheduler sees `node` as index arithmetic. Views of other names are run.
inline bool is_location(const ir::Node& node) {
  for (const char* target :
       {"aten.t.default", "aten.view.default", "aten.select.int", "aten.slice.Tensor"}) {
    if (node.target == target) {
      return true;
    }
  }
  return false;
}

inline ScheduledProgram schedule_by_hand(const ir::Graph& graph, bool bind_constants = false) {
  ScheduledProgram program{.graph = graph, .schedule = {}, .kernels = {}};
  program.kernels.by_target.resize(1);
  Schedule& schedule = program.schedule;
  schedule.locations.resize(graph.values().size());
  std::uint32_t inputs = 0;
  std::uint32_t constants = 0;
  const auto add = [&](ir::ValueId value, Buffer::Kind kind, std::uint32_t index) {
    const ir::TensorMeta& meta = graph.tensor(value);
    const BufferId id(schedule.buffers.size());
    schedule.buffers.push_back({kind, index, meta.dtype, meta.device, meta.sizes, meta.strides});
    schedule.locations[value.index()] = Location{id, 0, meta.sizes, meta.strides};
    return id;
  };
  for (const ir::Input& input : graph.inputs()) {
    const bool constant = bind_constants && input.kind != ir::InputKind::kUser;
    const std::uint32_t index = constant ? constants++ : inputs++;
    if (graph.value(input.value).is_tensor()) {
      add(input.value, constant ? Buffer::Kind::kConstant : Buffer::Kind::kInput, index);
    }
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const ir::Node& node = graph.nodes()[i];
    if (is_location(node)) {
      const auto base = std::get<ir::ValueId>(node.arguments[0]);
      const ir::TensorMeta& meta = graph.tensor(node.results[0]);
      const Location& from = *schedule.locations[base.index()];
      schedule.locations[node.results[0].index()] =
          Location{from.buffer,
                   from.offset + meta.offset - graph.tensor(base).offset,
                   meta.sizes,
                   meta.strides};
      continue;
    }
    for (const ir::ValueId result : node.results) {
      if (result.valid()) {
        add(result, Buffer::Kind::kTemporary, 0);
      }
    }
    KernelUse& use = program.kernels.uses.emplace_back();
    if (node.target != "aten.relu.default") {
      schedule.steps.emplace_back(ExternCall{ir::NodeId(i)});
      continue;
    }
    const Location& from = *schedule.locations[std::get<ir::ValueId>(node.arguments[0]).index()];
    const Location& to = *schedule.locations[node.results[0].index()];
    KernelCall call;
    call.operands.push_back({to.buffer, 0, true});
    call.operands.push_back({from.buffer, from.offset, false});
    use.kernel = static_cast<std::uint32_t>(program.kernels.kernels().size());
    use.sizes.push_back(ir::element_count(to.sizes));
    program.kernels.by_target[0].push_back({.source = kReluKernel, .comment = "aten.relu.default"});
    schedule.steps.emplace_back(std::move(call));
  }
  return program;
}

}  // namespace kiln::codegen::testing
