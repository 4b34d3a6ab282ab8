#include "support/text_backend.hpp"

#include <utility>
#include <variant>

#include "graph/arguments.hpp"
#include "kiln/base/error.hpp"
#include "loop/print.hpp"

namespace kiln::codegen::testing {
namespace {

StridedView view_of(const LoopProgram& program, ir::ValueId value) {
  const TensorId tensor = *program.of_value[value.index()];
  return find_strided_view(program, tensor)
      .value_or(StridedView{tensor, 0, program[tensor].strides});
}

}  // namespace

ir::Graph TextBackend::prepare(const ir::Graph& graph, bool /*bind_constants*/) const {
  return graph;
}

std::optional<LibraryMatch> TextBackend::match(const MatchContext& context,
                                               const ir::Node& node) const {
  if (node.target != "aten.mm.default") {
    return std::nullopt;
  }
  const ir::ValueId lhs = operand(node, 0), rhs = operand(node, 1);
  const std::vector<ir::Expr>& m_k = context.graph.tensor(lhs).sizes;
  LibraryMatch match;
  match.call.operation = "mm";
  match.call.parameters = {m_k[0], m_k[1], context.graph.tensor(rhs).sizes[1]};
  for (const ir::ValueId value : {lhs, rhs, node.results[0]}) {
    match.operands.push_back(view_of(context.program, value));
    if (match.operands.back().strides !=
        ir::contiguous_strides(context.graph.tensor(value).sizes)) {
      return std::nullopt;
    }
  }
  return match;
}

KernelSource TextBackend::emit(const LoopProgram& program,
                               const LoopNest& nest,
                               std::size_t target,
                               std::vector<ir::Expr>& /*sizes*/) const {
  return {.source = targets_[target] + " " + print(program, nest)};
}

KernelSource TextBackend::emit(const LibraryCall& call, std::size_t target) const {
  return {.source = targets_[target] + " " + call.operation, .shape_generic = true};
}

DeviceOperations TextBackend::operations() const {
  return {
      .device_type = 7,
      .device_name = "text",
      .declarations = "  unsigned char* text_allocate(Size);\n",
      .allocate = "static unsigned char* allocate(Size bytes) { return text_allocate(bytes); }\n",
      .free = "text_free",
      .shim_prefix = "aoti_torch_text_",
      .asynchronous = true};
}

KernelUnits TextBackend::units(std::span<const KernelSource> kernels,
                               std::size_t target,
                               std::size_t /*often*/) const {
  KernelUnits units;
  units.distinct = static_cast<int>(kernels.size());
  for (const KernelSource& kernel : kernels) {
    units.names.push_back(targets_[target] + std::to_string(units.names.size()));
    units.units.push_back({.name = units.names.back(), .source = kernel.source, .flags = {}});
  }
  return units;
}

TextMachine::TextMachine(const Schedule& schedule) : schedule_(schedule) {
  for (const Buffer& buffer : schedule.buffers) {
    std::int64_t last = 1;
    for (std::size_t i = 0; i < buffer.sizes.size(); ++i) {
      last += (buffer.sizes[i].constant().value() - 1) * buffer.strides[i].constant().value();
    }
    buffers_.emplace_back(static_cast<std::size_t>(last));
  }
}

void TextMachine::set(const ir::Graph& graph,
                      const std::string& input,
                      std::vector<Element> elements) {
  for (const ir::Input& each : graph.inputs()) {
    if (graph.value(each.value).name == input) {
      buffers_[schedule_.locations[each.value.index()]->buffer.index()] = std::move(elements);
    }
  }
}

std::span<Element> TextMachine::memory(const KernelCall::Operand& operand) {
  return std::span(buffers_[operand.buffer.index()])
      .subspan(static_cast<std::size_t>(operand.offset.constant().value()));
}

void TextMachine::run() {
  for (const Step& step : schedule_.steps) {
    const auto* call = std::get_if<KernelCall>(&step);
    ensure(call != nullptr, "this machine has no libtorch");
    if (const auto* nest = std::get_if<LoopNest>(&call->computation)) {
      std::vector<std::span<Element>> operands;
      for (std::size_t i = 0; i < nest->operands.size(); ++i) {
        operands.push_back(memory(call->operands[i]));
      }
      NestEvaluator(schedule_.program, *nest, std::move(operands)).run();
    } else {
      multiply(*call, std::get<LibraryCall>(call->computation));
    }
  }
}

void TextMachine::multiply(const KernelCall& call, const LibraryCall& library) {
  ensure(library.operation == "mm", "this machine has no other kernel");
  const auto at = [&](std::size_t operand, std::int64_t i) -> Element& {
    return memory(call.operands[operand])[static_cast<std::size_t>(i)];
  };
  const std::int64_t m = library.parameters[0].constant().value(),
                     k = library.parameters[1].constant().value(),
                     n = library.parameters[2].constant().value();
  for (std::int64_t i = 0; i < m * n; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      sum += at(0, i / n * k + j).real * at(1, j * n + i % n).real;
    }
    at(2, i) = fit(ir::DType::kFloat32, {sum, 0});
  }
}

std::vector<Element> TextMachine::get(const ir::Graph& graph, ir::ValueId value) const {
  const Location& location = *schedule_.locations[value.index()];
  std::vector<Element> elements;
  const std::int64_t count = ir::element_count(graph.tensor(value).sizes).constant().value();
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, place = location.offset.constant().value();
    for (std::size_t dim = location.sizes.size(); dim-- > 0;) {
      const std::int64_t size = location.sizes[dim].constant().value();
      place += rest % size * location.strides[dim].constant().value();
      rest /= size;
    }
    elements.push_back(buffers_[location.buffer.index()][static_cast<std::size_t>(place)]);
  }
  return elements;
}

}  // namespace kiln::codegen::testing
