#include <algorithm>
#include <string>
#include <vector>

#include "program/emit.hpp"
#include "program/model_text.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen {
namespace {

// -1: not fixed.
std::string array_of(const std::vector<ir::Expr>& values) {
  std::string items;
  for (const ir::Expr& value : values) {
    items += (items.empty() ? "" : ", ") + std::to_string(value.constant().value_or(-1));
  }
  return items;
}

// A field that points to numbers; arrays of their own, because a table may have no empty ones.
std::string numbers(CodeWriter& text,
                    const std::string& name,
                    const std::vector<ir::Expr>& values) {
  if (values.empty()) {
    return "nullptr";
  }
  text.line("static const Int64 $[] = {$};", name, array_of(values));
  return name;
}

// The common front of a tensor's and a constant's row.
std::string geometry(CodeWriter& text, const std::string& prefix, const ir::Value* value) {
  if (value == nullptr || !value->is_tensor()) {
    // An integer crosses as a tensor of one int64; None as anything.
    return std::to_string(static_cast<int>(ir::DType::kInt64)) + ", 0, 0, nullptr, nullptr";
  }
  const ir::TensorMeta& meta = value->tensor();
  const std::string sizes = numbers(text, prefix + "_sizes", meta.sizes);
  const std::string strides = numbers(text, prefix + "_strides", meta.strides);
  return code("$, $, $, $, $",
              static_cast<int>(meta.dtype),
              static_cast<int>(meta.device.type),
              meta.sizes.size(),
              sizes,
              strides);
}

// Whether the graph writes to what it takes at a port.
bool is_mutated(const Program& program, const Port& port) {
  return std::ranges::any_of(program.graph->outputs(), [&](const ir::Output& output) {
    return output.kind == ir::OutputKind::kMutation && output.input == port.graph;
  });
}

std::string emit_tensors(CodeWriter& text,
                         const Program& program,
                         const std::string& name,
                         const std::vector<Port>& ports) {
  if (ports.empty()) {
    return "nullptr";
  }
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const ir::Value* value =
        ports[i].value.valid() ? &program.graph->value(ports[i].value) : nullptr;
    rows.push_back("{" + string_literal(ports[i].name) + ", " +
                   geometry(text, name + std::to_string(i), value) + ", " +
                   (is_mutated(program, ports[i]) ? "1" : "0") + "},");
  }
  const CodeWriter::Scope table = text.declaration("static const KilnTensor $[] =", name);
  for (const std::string& row : rows) {
    text.line(row);
  }
  return name;
}

constexpr int kFolded = 4;

int constant_kind(ir::InputKind kind) {
  switch (kind) {
    case ir::InputKind::kParameter: return 1;
    case ir::InputKind::kBuffer: return 2;
    default: return 3;
  }
}

std::string emit_constants(CodeWriter& text,
                           const Program& program,
                           const ModelDescription& description) {
  if (program.constants.empty()) {
    return "nullptr";
  }
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < program.constants.size(); ++i) {
    const Port& port = program.constants[i];
    const ir::Value& value = program.graph->value(port.value);
    const bool folded = i + description.folded >= program.constants.size();
    const int kind = folded ? kFolded : constant_kind(program.graph->inputs()[port.graph].kind);
    const ConstantPlace& place = description.constants[i];
    rows.push_back("{" + string_literal(value.name) + ", " + string_literal(port.name) + ", " +
                   geometry(text, "constant" + std::to_string(i), &value) + ", " +
                   std::to_string(place.bytes) + "u, " + std::to_string(place.offset) + "u, " +
                   std::to_string(kind) + ", " + (is_mutated(program, port) ? "1" : "0") + "},");
  }
  const CodeWriter::Scope table = text.declaration("static const KilnConstant constants[] =");
  for (const std::string& row : rows) {
    text.line(row);
  }
  return "constants";
}

}  // namespace

void emit_table(CodeWriter& text, const Emission& emission, const ModelDescription& description) {
  const Program& program = emission.program();
  const DeviceOperations& operations = emission.operations();
  text.line();
  const std::string inputs = emit_tensors(text, program, "inputs", program.inputs);
  const std::string outputs = emit_tensors(text, program, "outputs", program.outputs);
  const std::string constants = emit_constants(text, program, description);

  text.line();
  const CodeWriter::Scope declaration =
      text.declaration("extern \"C\" HIDDEN const KilnModel kiln_model =");
  text.line("$,  // version", kModelVersion);
  text.line("$,  // $", operations.device_type, operations.device_name);
  text.line("$, $, $,  // inputs, outputs, constants",
            program.inputs.size(),
            program.outputs.size(),
            program.constants.size());
  text.line(description.check_inputs ? "1,  // check_inputs" : "0,  // check_inputs");
  text.line(program.mutates_constants ? "1,  // mutates_constants" : "0,  // mutates_constants");
  text.line("$, $, $,", inputs, outputs, constants);
  text.line("$,", string_literal(description.in_spec));
  text.line("$,", string_literal(description.out_spec));
  text.line("$,", string_literal(description.cpu_features));
  text.line("nullptr, $,  // weights: behind the library", description.weights_bytes);
  const bool reports_later = operations.asynchronous && emission.flag_count() != 0;
  text.line("create, destroy, run, $, $",
            description.folded != 0 ? "fold" : "nullptr",
            reports_later ? "pending_error" : "nullptr");
}

}  // namespace kiln::codegen
