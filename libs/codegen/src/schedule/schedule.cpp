#include "schedule/schedule.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "graph/aliases.hpp"
#include "graph/constants.hpp"
#include "kiln/base/error.hpp"
#include "libtorch/call_cost.hpp"
#include "loop/strided_view.hpp"
#include "lower/lowering.hpp"
#include "schedule/concatenate_in_place.hpp"
#include "schedule/fusion.hpp"
#include "schedule/inner_loop.hpp"
#include "schedule/loop_cost.hpp"
#include "schedule/merge_segments.hpp"
#include "schedule/row_buffers.hpp"
#include "schedule/update_in_place.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

class Scheduler {
 public:
  Scheduler(const ir::Graph& graph, const Backend& backend, bool bind_constants)
      : graph_(graph),
        backend_(backend),
        policy_(backend.loop_policy()),
        uses_(graph),
        program_(lower_for(backend, graph)) {
    schedule_.locations.resize(graph.values().size());
    buffers_.resize(program_.tensors.size());
    add_inputs(bind_constants);
  }

  Schedule run() {
    separate_returned_copies();
    collect_requirements();
    const FusionPlan plan = fuse(program_, requirements_, backend_.fusion_limits());
    is_materialized_.resize(program_.tensors.size());
    for (const TensorId tensor : plan.materialized) {
      is_materialized_[tensor.index()] = true;
    }
    for (const PlannedStep& step : plan.steps) {
      if (step.node && library_calls_[step.node->index()]) {
        add_library_call(*step.node, *library_calls_[step.node->index()]);
      } else if (step.node) {
        schedule_.steps.emplace_back(ExternCall{*step.node});
      } else {
        add_kernel(plan, step.group);
      }
    }
    locate_values(plan);
    concatenate_in_place(graph_, schedule_);
    schedule_.program = std::move(program_);
    return std::move(schedule_);
  }

 private:
  void add_inputs(bool bind_constants) {
    std::uint32_t next_input = 0;
    std::uint32_t next_constant = 0;
    for (const ir::Input& input : graph_.inputs()) {
      const bool constant = bind_constants && is_constant(input.kind);
      const std::uint32_t position = constant ? next_constant++ : next_input++;
      if (!graph_.value(input.value).is_tensor()) {
        continue;
      }
      const ir::TensorMeta& meta = graph_.tensor(input.value);
      if (meta.device.type != backend_.device()) {
        throw Error(ErrorCode::kUnsupported,
                    "input %" + graph_.value(input.value).name + " is on " +
                        to_string(meta.device) + ", and the program is compiled for " +
                        to_string(ir::Device{backend_.device(), -1}));
      }
      const TensorId tensor = *program_.of_value[input.value.index()];
      buffers_[tensor.index()] =
          add_buffer({.kind = constant ? Buffer::Kind::kConstant : Buffer::Kind::kInput,
                      .index = position,
                      .dtype = meta.dtype,
                      .device = meta.device,
                      .sizes = meta.sizes,
                      .strides = meta.strides});
    }
  }

  BufferId add_buffer(Buffer buffer) {
    schedule_.buffers.push_back(std::move(buffer));
    return BufferId(schedule_.buffers.size() - 1);
  }

  BufferId buffer_of(TensorId id) {
    std::optional<BufferId>& buffer = buffers_[id.index()];
    if (!buffer) {
      const Tensor& tensor = program_[id];
      buffer = add_buffer({.kind = Buffer::Kind::kTemporary,
                           .dtype = tensor.dtype,
                           .device = tensor.device,
                           .sizes = tensor.sizes,
                           .strides = tensor.strides});
    }
    return *buffer;
  }

  // The result of the copying operator (view_copy) behind `value`, which lowering treats as a view.
  std::optional<ir::ValueId> find_copy(ir::ValueId value) const {
    for (;;) {
      const std::optional<TensorId> tensor = program_.of_value[value.index()];
      const ir::NodeId producer = graph_.value(value).producer;
      if (!tensor || !program_[*tensor].is_view || !producer.valid()) {
        return std::nullopt;
      }
      const ir::Node& node = graph_.node(producer);
      const std::vector<ir::Alias> aliases = aliases_of(graph_, node);
      const auto result = std::ranges::find(node.results, value) - node.results.begin();
      const auto alias =
          std::ranges::find(aliases, static_cast<std::uint32_t>(result), &ir::Alias::result);
      if (alias == aliases.end()) {
        return value;
      }
      const auto* viewed = std::get_if<ir::ValueId>(&node.arguments[alias->argument]);
      if (viewed == nullptr) {
        return std::nullopt;
      }
      value = *viewed;
    }
  }

  // A returned copy must not share memory with an input or another result. Values saved for the
  // backward may: nothing writes to them.
  void separate_returned_copies() {
    struct Returned {
      std::optional<ir::ValueId> copy;
      TensorId root;
      bool is_result;
    };
    std::vector<Returned> all;
    for (const ir::Output& output : graph_.outputs()) {
      if (!output.value.valid() || !graph_.value(output.value).is_tensor() ||
          output.kind == ir::OutputKind::kMutation) {
        continue;
      }
      const TensorId tensor = *program_.of_value[output.value.index()];
      const std::optional<StridedView> view = find_strided_view(program_, tensor);
      all.push_back({find_copy(output.value),
                     view ? view->root : tensor,
                     output.kind == ir::OutputKind::kUser});
    }
    for (const Returned& each : all) {
      if (!each.copy) {
        continue;
      }
      const ir::NodeId maker = program_[each.root].node;
      const bool is_borrowed = !maker.valid() || !aliases_of(graph_, graph_.node(maker)).empty();
      const auto is_other = [&](const Returned& other) {
        return each.is_result && other.is_result && other.root == each.root &&
               other.copy != each.copy;
      };
      if (is_borrowed || std::ranges::any_of(all, is_other)) {
        program_.tensors[program_.of_value[each.copy->index()]->index()].is_view = false;
      }
    }
  }

  // The tensor that must be in memory for `value` to have a location.
  TensorId require(ir::ValueId value) {
    const TensorId tensor = *program_.of_value[value.index()];
    const std::optional<StridedView> view = find_strided_view(program_, tensor);
    const TensorId root = view ? view->root : tensor;
    requirements_.tensors.insert(root);
    return root;
  }

  void add_library_call(ir::NodeId node, LibraryMatch& match) {
    KernelCall call;
    const std::size_t read = match.operands.size() - match.results;
    for (std::size_t i = 0; i < match.operands.size(); ++i) {
      const StridedView& operand = match.operands[i];
      call.operands.push_back({buffer_of(operand.root), operand.offset, i >= read});
    }
    if (!(match.call.scratch == Expr(0))) {
      add_scratch(ir::DType::kFloat32, match.call.scratch, call);
    }
    call.nodes = {node};
    call.cost = cost_of(graph_, graph_.node(node));
    call.computation = std::move(match.call);
    schedule_.steps.emplace_back(std::move(call));
  }

  void add_scratch(ir::DType dtype, const Expr& count, KernelCall& call) {
    const BufferId buffer = add_buffer({.kind = Buffer::Kind::kTemporary,
                                        .dtype = dtype,
                                        .device = {backend_.device(), -1},
                                        .sizes = {count},
                                        .strides = {1}});
    call.operands.push_back({buffer, 0, true});
  }

  void collect_requirements() {
    requirements_.of_node.resize(graph_.nodes().size());
    library_calls_.resize(graph_.nodes().size());
    requirements_.ordered.resize(graph_.nodes().size());
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const ir::Node& node = graph_.nodes()[i];
      requirements_.ordered[i] = node.random || node.effectful;
      if (!program_.extern_at[i]) {
        continue;
      }
      library_calls_[i] = backend_.match({graph_, uses_, program_}, node);
      if (library_calls_[i]) {
        const auto& [call, operands, results] = *library_calls_[i];
        for (const StridedView& operand : std::span(operands).first(operands.size() - results)) {
          requirements_.of_node[i].push_back(operand.root);
          requirements_.tensors.insert(operand.root);
        }
        continue;
      }
      for_each_operand(node, [&](ir::ValueId value) {
        if (graph_.value(value).is_tensor()) {
          requirements_.of_node[i].push_back(require(value));
        }
      });
    }
    for (const ir::Output& output : graph_.outputs()) {
      if (output.value.valid() && graph_.value(output.value).is_tensor()) {
        require(output.value);
      }
    }
  }

  void add_kernel(const FusionPlan& plan, const FusionGroup& group) {
    std::optional<LoopNest> kernel = shape_nest(program_, plan, group, policy_);
    ensure(kernel.has_value(), "a group that fits does not expand");
    if (policy_.merges_segments) {
      merge_segments(program_, *kernel);
    }
    const bool empty =
        std::ranges::any_of(kernel->extents, [](const Expr& extent) { return extent == Expr(0); });
    if (kernel->stores.empty() || (empty && kernel->reduces.empty())) {
      return;
    }
    if (const auto updated = find_in_place_update(graph_, uses_, program_, *kernel)) {
      buffers_[kernel->operands[kernel->stores[0].operand].tensor.index()] = buffer_of(*updated);
      kernel->stores.clear();
    }
    kernel->row_buffers = choose_row_buffers(program_, *kernel, policy_.row_buffers);
    name_ops(group, *kernel);
    KernelCall call;
    for (const LoopNest::Operand& operand : kernel->operands) {
      call.operands.push_back({buffer_of(operand.tensor), 0, operand.written});
    }
    for (const LoopNest::Scratch& scratch : kernel->scratch()) {
      add_scratch(scratch.dtype, scratch.count, call);
    }
    call.nodes = nodes_of(group);
    call.cost = cost_of(program_, *kernel);
    call.computation = std::move(*kernel);
    schedule_.steps.emplace_back(std::move(call));
  }

  // Operators in program order, each once. Kernels are deduplicated by source, so no layer names.
  void name_ops(const FusionGroup& group, LoopNest& kernel) const {
    for (const ir::NodeId node : nodes_of(group)) {
      std::string op = graph_.node(node).target;
      op = op.substr(op.find('.') + 1);
      op = op.substr(0, op.find('.'));
      if (std::ranges::find(kernel.ops, op) == kernel.ops.end()) {
        kernel.ops.push_back(std::move(op));
      }
    }
  }

  // Every node whose results are computed in the group's kernel, including inlined ones.
  std::vector<ir::NodeId> nodes_of(const FusionGroup& group) const {
    std::vector<bool> seen(program_.tensors.size());
    std::vector<TensorId> stack = group.members;
    std::vector<ir::NodeId> nodes;
    const auto visit_scalar = [&](auto&& self, ScalarId id, std::vector<ScalarId>& done) -> void {
      if (std::ranges::find(done, id) != done.end()) {
        return;
      }
      done.push_back(id);
      const Scalar& scalar = program_.pool[id];
      if (scalar.op == ScalarOp::kRead && !is_materialized_[scalar.tensor.index()]) {
        stack.push_back(scalar.tensor);
      }
      for (const ScalarId operand : scalar.operands) {
        self(self, operand, done);
      }
    };
    while (!stack.empty()) {
      const TensorId id = stack.back();
      stack.pop_back();
      const Tensor& tensor = program_[id];
      if (seen[id.index()] || tensor.kind == Tensor::Kind::kMemory) {
        continue;
      }
      seen[id.index()] = true;
      if (!tensor.is_view && tensor.node.valid()) {
        nodes.push_back(tensor.node);
      }
      std::vector<ScalarId> done;
      for_each_root(tensor, [&](ScalarId root) { visit_scalar(visit_scalar, root, done); });
    }
    std::ranges::sort(nodes);
    const auto [first, last] = std::ranges::unique(nodes);
    nodes.erase(first, last);
    return nodes;
  }

  // Everything that is in memory gets its view.
  void locate_values(const FusionPlan& plan) {
    for (std::size_t i = 0; i < graph_.values().size(); ++i) {
      if (!program_.of_value[i]) {
        continue;
      }
      const TensorId tensor = *program_.of_value[i];
      const auto in_memory = [&](TensorId id) {
        return program_[id].kind == Tensor::Kind::kMemory || plan.kept.contains(id);
      };
      if (in_memory(tensor)) {
        schedule_.locations[i] =
            Location{buffer_of(tensor), 0, program_[tensor].sizes, program_[tensor].strides};
        continue;
      }
      const std::optional<StridedView> view = find_strided_view(program_, tensor);
      if (view && in_memory(view->root)) {
        schedule_.locations[i] =
            Location{buffer_of(view->root), view->offset, program_[tensor].sizes, view->strides};
      }
    }
    for (const ir::Output& output : graph_.outputs()) {
      if (!output.value.valid() || output.kind == ir::OutputKind::kMutation) {
        continue;
      }
      if (const std::optional<Location>& location = schedule_.locations[output.value.index()]) {
        Buffer& buffer = schedule_.buffers[location->buffer.index()];
        if (buffer.kind == Buffer::Kind::kTemporary) {
          buffer.kind = Buffer::Kind::kOutput;
        }
      }
    }
  }

  const ir::Graph& graph_;
  const Backend& backend_;
  LoopPolicy policy_;
  ir::Uses uses_;
  LoopProgram program_;
  Schedule schedule_;
  Requirements requirements_;
  std::vector<std::optional<LibraryMatch>> library_calls_;  // By node.
  std::vector<std::optional<BufferId>> buffers_;            // By tensor.
  std::vector<bool> is_materialized_;                       // By tensor.
};

}  // namespace

LoopProgram lower_for(const Backend& backend, const ir::Graph& graph) {
  return lower(graph,
               {.is_wanted = [&](const ir::Node& node) { return backend.wants_loops(graph, node); },
                .corrects_means = backend.corrects_means(),
                .max_row_elements = backend.fusion_limits().max_row_elements});
}

Schedule schedule(const ir::Graph& graph, const Backend& backend, bool bind_constants) {
  return Scheduler(graph, backend, bind_constants).run();
}

}  // namespace kiln::codegen
