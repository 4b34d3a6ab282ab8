#include "program/program.hpp"

#include <algorithm>
#include <numeric>

#include "graph/aliases.hpp"
#include "graph/constants.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/memory_plan.hpp"
#include "libtorch/call_path.hpp"

namespace kiln::codegen {
namespace {

void plan_ports(Program& program, bool bind_constants) {
  const ir::Graph& graph = *program.graph;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::Input& input = graph.inputs()[i];
    const std::string& name = input.name.empty() ? graph.value(input.value).name : input.name;
    auto& ports = bind_constants && is_constant(input.kind) ? program.constants : program.inputs;
    ports.push_back({name, input.value, static_cast<std::uint32_t>(i)});
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const ir::Output& output = graph.outputs()[i];
    if (output.kind == ir::OutputKind::kMutation) {
      continue;
    }
    std::string name = output.name;
    if (name.empty()) {
      name = output.value.valid() ? graph.value(output.value).name : "none";
    }
    program.outputs.push_back({std::move(name), output.value, static_cast<std::uint32_t>(i)});
  }
}

// Walks the steps, backwards where a later one decides about an earlier one.
class BufferPlanner {
 public:
  explicit BufferPlanner(Program& program)
      : program_(program), graph_(*program.graph), schedule_(*program.schedule) {}

  void run() {
    program_.buffers.resize(schedule_.buffers.size());
    for (std::size_t i = 0; i < schedule_.buffers.size(); ++i) {
      program_.buffers[i].memory = initial_memory(schedule_.buffers[i].kind);
    }
    for (std::uint32_t step = 0; step < schedule_.steps.size(); ++step) {
      visit(step);
    }
    plan_mutations();
    for (const Port& output : program_.outputs) {
      if (output.value.valid() && graph_.value(output.value).is_tensor()) {
        const BufferId id = require(output.value).buffer;
        touch(id, end());
        plan(id).escapes = true;
      }
    }
    for (std::size_t step = schedule_.steps.size(); step-- > 0;) {
      if (const auto* call = std::get_if<ExternCall>(&schedule_.steps[step])) {
        extend_over_aliases(graph_.node(call->node));
      }
    }
    for (BufferPlan& buffer : program_.buffers) {
      if (buffer.escapes && buffer.memory == Memory::kArena) {
        buffer.memory = Memory::kAllocated;
      }
    }
    place();
    for (const Step& step : schedule_.steps) {
      if (const auto* call = std::get_if<ExternCall>(&step)) {
        plan_views(graph_.node(call->node));
      }
    }
    for (const std::uint32_t index : program_.mutations) {
      const ir::Output& output = graph_.outputs()[index];
      plan_view(output.value);
      plan_view(graph_.inputs()[output.input].value);
    }
  }

 private:
  static Memory initial_memory(Buffer::Kind kind) {
    switch (kind) {
      case Buffer::Kind::kInput: return Memory::kInput;
      case Buffer::Kind::kConstant: return Memory::kConstant;
      case Buffer::Kind::kTemporary: return Memory::kArena;
      case Buffer::Kind::kOutput: return Memory::kAllocated;
    }
    return Memory::kArena;
  }

  [[nodiscard]] std::uint32_t end() const {
    return static_cast<std::uint32_t>(schedule_.steps.size());
  }

  BufferPlan& plan(BufferId id) { return program_.buffers[id.index()]; }

  const Location& require(ir::ValueId value) const {
    const auto& location = program_.location(value);
    ensure(location.has_value(), "a value that leaves the kernels has no location");
    return *location;
  }

  void touch(BufferId id, std::uint32_t step) {
    BufferPlan& buffer = plan(id);
    if (!buffer.used) {
      buffer.first = step;
    }
    buffer.used = true;
    buffer.last = std::max(buffer.last, step);
  }

  void visit(std::uint32_t step) {
    if (const auto* kernel = std::get_if<KernelCall>(&schedule_.steps[step])) {
      for (const KernelCall::Operand& operand : kernel->operands) {
        touch(operand.buffer, step);
        plan(operand.buffer).needs_pointer = true;
      }
      return;
    }
    const ir::Node& node = graph_.node(std::get<ExternCall>(schedule_.steps[step]).node);
    ir::for_each_operand(node, [&](ir::ValueId value) {
      if (graph_.value(value).is_tensor()) {
        touch(require(value).buffer, step);
      }
    });
    const bool planned = choose_call_path(graph_, node) == CallPath::kShimOut;
    for (const ir::ValueId result : node.results) {
      if (result.valid() && program_.location(result) && graph_.value(result).is_tensor()) {
        const BufferId id = require(result).buffer;
        touch(id, step);
        if (!planned) {
          plan(id).memory = Memory::kCalleeAllocated;
        }
      }
    }
  }

  bool is_written(BufferId id) const {
    return std::any_of(schedule_.steps.begin(), schedule_.steps.end(), [&](const Step& step) {
      const auto* kernel = std::get_if<KernelCall>(&step);
      return kernel &&
             std::any_of(
                 kernel->operands.begin(), kernel->operands.end(), [&](const auto& operand) {
                   return operand.written && operand.buffer == id;
                 });
    });
  }

  void plan_mutations() {
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const ir::Output& output = graph_.outputs()[i];
      if (output.kind != ir::OutputKind::kMutation) {
        continue;
      }
      const ir::Input& target = graph_.inputs()[output.input];
      const Location& to = require(target.value);
      program_.mutates_constants |= plan(to.buffer).memory == Memory::kConstant;
      if (is_written(to.buffer) || output.value == target.value) {
        continue;
      }
      touch(require(output.value).buffer, end());
      program_.mutations.push_back(static_cast<std::uint32_t>(i));
    }
  }

  // What an extern call returns may be a window on what it was given, which must then live as long.
  void extend_over_aliases(const ir::Node& node) {
    for (const ir::Alias& alias : aliases_of(graph_, node)) {
      const ir::ValueId result = node.results[alias.result];
      const auto* argument = std::get_if<ir::ValueId>(&node.arguments[alias.argument]);
      if (!result.valid() || !program_.location(result) || !argument || !argument->valid()) {
        continue;
      }
      const BufferPlan from = plan(require(result).buffer);
      BufferPlan& base = plan(require(*argument).buffer);
      base.last = std::max(base.last, from.last);
      base.escapes |= from.escapes;
    }
  }

  void plan_view(ir::ValueId value) {
    if (!graph_.value(value).is_tensor() || !needs_view(program_, require(value))) {
      return;
    }
    const Location& location = require(value);
    plan(location.buffer).needs_pointer = true;
    if (!find_view(program_, location)) {
      program_.views.push_back({location.buffer,
                                program_.buffer(location.buffer).dtype,
                                location.offset,
                                location.sizes,
                                location.strides});
    }
  }

  void plan_views(const ir::Node& node) {
    ir::for_each_operand(node, [&](ir::ValueId value) { plan_view(value); });
    for (const ir::ValueId result : node.results) {
      if (result.valid() && program_.location(result)) {
        plan_view(result);
      }
    }
  }

  // With sizes that vary an instance does this, when it knows them (emit_prepare.cpp).
  void place() {
    if (program_.dynamic()) {
      return;
    }
    std::vector<Lifetime> lifetimes;
    std::vector<std::size_t> owners;
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      const BufferPlan& buffer = program_.buffers[i];
      if (buffer.used && buffer.memory == Memory::kArena) {
        const Buffer& shape = schedule_.buffers[i];
        const std::int64_t bytes =
            *extent_bytes(shape.sizes, shape.strides, shape.dtype).constant();
        lifetimes.push_back({buffer.first,
                             buffer.last,
                             static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0))});
        owners.push_back(i);
      }
    }
    const MemoryPlan memory = plan_memory(lifetimes);
    for (std::size_t i = 0; i < owners.size(); ++i) {
      program_.buffers[owners[i]].offset = memory.offsets[i];
    }
    program_.arena_bytes = memory.bytes;
  }

  Program& program_;
  const ir::Graph& graph_;
  const Schedule& schedule_;
};

}  // namespace

bool Program::is_fixed_integer(std::size_t position) const {
  const ir::Input& input = graph->inputs()[inputs[position].graph];
  const auto* integer = std::get_if<ir::SymIntMeta>(&graph->value(input.value).meta);
  return input.kind == ir::InputKind::kUser && integer != nullptr && integer->expr.is_constant();
}

bool Program::checks_inputs() const {
  bool checks = dynamic();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    checks = checks || is_fixed_integer(i);
  }
  return checks;
}

bool is_whole(const Location& location, const Buffer& buffer) {
  if (location.offset != ir::Expr(0) || location.sizes != buffer.sizes) {
    return false;
  }
  for (std::size_t d = 0; d < location.sizes.size(); ++d) {
    // The stride of a dimension of one element is never used.
    if (location.strides[d] != buffer.strides[d] && location.sizes[d] != ir::Expr(1)) {
      return false;
    }
  }
  return true;
}

bool needs_view(const Program& program, const Location& location) {
  return program.plan(location.buffer).memory == Memory::kArena ||
         !is_whole(location, program.buffer(location.buffer));
}

ir::Expr extent_bytes(const std::vector<ir::Expr>& sizes,
                      const std::vector<ir::Expr>& strides,
                      ir::DType dtype) {
  ir::Expr last = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == ir::Expr(0)) {
      return 0;
    }
    last = last + (sizes[d] - 1) * strides[d];
  }
  return (last + 1) * ir::Expr(ir::size_of(dtype));
}

std::optional<std::uint32_t> find_view(const Program& program, const Location& location) {
  const auto place = [&](BufferId id, const ir::Expr& offset) -> std::optional<ir::Expr> {
    const BufferPlan& plan = program.plan(id);
    if (plan.memory != Memory::kArena || program.dynamic()) {
      return std::nullopt;
    }
    return offset * ir::Expr(ir::size_of(program.buffer(id).dtype)) +
           ir::Expr(static_cast<std::int64_t>(plan.offset));
  };
  const std::optional<ir::Expr> here = place(location.buffer, location.offset);
  for (std::size_t i = 0; i < program.views.size(); ++i) {
    const View& view = program.views[i];
    const bool same = here ? place(view.buffer, view.offset) == here
                           : view.buffer == location.buffer && view.offset == location.offset;
    if (same && view.dtype == program.buffer(location.buffer).dtype &&
        view.sizes == location.sizes && view.strides == location.strides) {
      return static_cast<std::uint32_t>(i);
    }
  }
  return std::nullopt;
}

Program plan_program(const ir::Graph& graph,
                     const Schedule& schedule,
                     const KernelTable& kernels,
                     bool bind_constants) {
  Program program;
  program.graph = &graph;
  program.schedule = &schedule;
  program.kernels = &kernels;
  plan_ports(program, bind_constants);
  program.symbols = ir::find_symbol_sources(graph);
  BufferPlanner(program).run();
  return program;
}

}  // namespace kiln::codegen
