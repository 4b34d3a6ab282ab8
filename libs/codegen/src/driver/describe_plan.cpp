#include "driver/describe_plan.hpp"

#include <functional>
#include <variant>

#include "libtorch/call_cost.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen {
namespace {

// Items of a JSON list or object, one a line.
template <class Items, class Print>
std::string list(const Items& items, Print&& print, const char* separator = ",\n") {
  std::string text;
  for (const auto& item : items) {
    text += (text.empty() ? "" : separator) + print(item);
  }
  return text;
}

std::string number(const ir::Expr& expr) {
  return expr.is_constant() ? std::to_string(*expr.constant()) : json_string(expr.to_string());
}

std::string numbers(const std::vector<ir::Expr>& values) {
  return "[" + list(values, number, ", ") + "]";
}

std::string strings(const std::vector<std::string>& values) {
  return "[" + list(values, json_string, ", ") + "]";
}

const char* name_of(Memory memory) {
  switch (memory) {
    case Memory::kInput: return "input";
    case Memory::kConstant: return "constant";
    case Memory::kArena: return "arena";
    case Memory::kAllocated: return "allocated";
    case Memory::kCalleeAllocated: return "callee_allocated";
  }
  return "";
}

std::string describe_buffer(const Buffer& buffer, const BufferPlan& plan) {
  return "{\"memory\": " + json_string(name_of(plan.memory)) +
         ", \"index\": " + std::to_string(buffer.index) +
         ", \"dtype\": " + json_string(to_string(buffer.dtype)) +
         ", \"sizes\": " + numbers(buffer.sizes) + ", \"strides\": " + numbers(buffer.strides) +
         ", \"bytes\": " + number(extent_bytes(buffer.sizes, buffer.strides, buffer.dtype)) +
         ", \"used\": " + (plan.used ? "true" : "false") +
         ", \"first\": " + std::to_string(plan.first) + ", \"last\": " + std::to_string(plan.last) +
         ", \"offset\": " + std::to_string(plan.offset) + "}";
}

std::string describe_values(const Program& program) {
  std::string text;
  for (std::size_t i = 0; i < program.schedule->locations.size(); ++i) {
    const std::optional<Location>& location = program.schedule->locations[i];
    if (location) {
      text += (text.empty() ? "" : ",\n") + json_string(program.graph->value(ir::ValueId(i)).name) +
              ": {\"buffer\": " + std::to_string(location->buffer.index()) +
              ", \"offset\": " + number(location->offset) +
              ", \"sizes\": " + numbers(location->sizes) +
              ", \"strides\": " + numbers(location->strides) + "}";
    }
  }
  return text;
}

// "aten.add.Tensor (encoder.0)"
std::string described_node(const ir::Node& node) {
  const std::string& path = node.provenance.module_path;
  return node.target + (path.empty() ? "" : " (" + path + ")");
}

std::string describe_cost(const Cost& cost) {
  return "\"bytes_read\": " + number(cost.bytes_read) +
         ", \"bytes_written\": " + number(cost.bytes_written) +
         ", \"operations\": " + number(cost.operations);
}

std::string describe_step(const Program& program, std::size_t index) {
  const Step& step = program.schedule->steps[index];
  if (const auto* call = std::get_if<KernelCall>(&step)) {
    std::vector<std::string> nodes;
    for (const ir::NodeId id : call->nodes) {
      nodes.push_back(described_node(program.graph->node(id)));
    }
    const auto operand = [](const KernelCall::Operand& item) {
      return "{\"buffer\": " + std::to_string(item.buffer.index()) +
             ", \"offset\": " + number(item.offset) +
             ", \"written\": " + (item.written ? "true" : "false") + "}";
    };
    return "{\"kernel\": " + std::to_string(program.use(index).kernel) + ", \"operands\": [" +
           list(call->operands, operand, ", ") +
           "], \"sizes\": " + numbers(program.use(index).sizes) + ", \"nodes\": " + strings(nodes) +
           ", " + describe_cost(call->cost) + "}";
  }
  const ir::Node& node = program.graph->node(std::get<ExternCall>(step).node);
  std::vector<std::string> operands, results;
  for_each_operand(
      node, [&](ir::ValueId value) { operands.push_back(program.graph->value(value).name); });
  for (const ir::ValueId value : node.results) {
    if (value.valid()) {
      results.push_back(program.graph->value(value).name);
    }
  }
  return "{\"target\": " + json_string(described_node(node)) +
         ", \"operands\": " + strings(operands) + ", \"results\": " + strings(results) + ", " +
         describe_cost(cost_of(*program.graph, node)) + "}";
}

}  // namespace

std::string describe_plan(const Program& program,
                          const std::vector<std::string>& kernel_names,
                          std::span<const Unit> units,
                          const std::vector<std::string>& compiler) {
  const Schedule& schedule = *program.schedule;
  std::string text = "{\"version\": 1,\n\"graph\": " + json_string(program.graph->name()) +
                     ",\n\"arena_bytes\": " + std::to_string(program.arena_bytes) +
                     ",\n\"compiler\": " + strings(compiler) + ",\n\"units\": [\n";
  text += list(units, [](const Unit& unit) {
    return "{\"file\": " + json_string(unit.name + ".cpp") + ", \"flags\": " + strings(unit.flags) +
           "}";
  });
  text += "],\n\"buffers\": [\n";
  for (std::size_t i = 0; i < schedule.buffers.size(); ++i) {
    text += (i == 0 ? "" : ",\n") + describe_buffer(schedule.buffers[i], program.buffers[i]);
  }
  text += "],\n\"values\": {\n" + describe_values(program) + "},\n\"kernels\": [\n";
  const std::vector<KernelSource>& kernels = program.kernels->kernels();
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const KernelSource& kernel = kernels[i];
    text += (i == 0 ? "" : ",\n") + ("{\"name\": " + json_string(kernel_names[i])) +
            ", \"comment\": " + json_string(kernel.comment) +
            ", \"checks_indices\": " + (kernel.checks_indices ? "true" : "false") + "}";
  }
  text += "],\n\"steps\": [\n";
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    text += (i == 0 ? "" : ",\n") + describe_step(program, i);
  }
  return text + "]}\n";
}

}  // namespace kiln::codegen
