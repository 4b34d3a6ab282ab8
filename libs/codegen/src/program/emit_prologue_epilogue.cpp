#include <algorithm>
#include <set>
#include <string>

#include "graph/aliases.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/offset_dependent_inputs.hpp"
#include "program/emit.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen {
namespace {

// Where the memory of inputs or constants is in this run; a table, as there may be thousands.
void emit_pointers(Emission& emission, Memory memory, const std::string& what) {
  const Program& program = emission.program();
  std::string rows;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferPlan& plan = program.buffers[i];
    if (plan.used && plan.needs_pointer && plan.memory == memory) {
      rows += (rows.empty() ? "{" : ", {") + std::to_string(program.schedule->buffers[i].index) +
              ", " + std::to_string(i) + "}";
    }
  }
  if (rows.empty()) {
    return;
  }
  CodeWriter& text = emission.text();
  const std::string table = what + "_at";
  text.line("static const int $[][2] = {$};", table, rows);
  if (memory == Memory::kInput) {
    text.line(
        "for (const auto& [input, buffer] : $) "
        "TRY(aoti_torch_get_data_ptr(call.inputs[input], &m.at[buffer]));",
        table);
  } else {
    text.line(
        "for (const auto& [constant, buffer] : $) m.at[buffer] = "
        "call.constant_data[constant];",
        table);
  }
}

// What as_strided finds depends on where its tensor begins.
void emit_place_checks(Emission& emission) {
  const Program& program = emission.program();
  const std::vector<std::uint32_t> placed = ir::offset_dependent_inputs(*program.graph);
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const Port& port = program.inputs[i];
    if (std::ranges::find(placed, port.graph) == placed.end()) {
      continue;
    }
    emission.declare("aoti_torch_get_storage_offset", "Handle, Int64*");
    const std::string offset = emission.number(program.graph->tensor(port.value).offset);
    const std::string refusal = code(
        "input $ must begin at element $ of its storage, because the program reads "
        "that by place (as_strided): clone it",
        i,
        offset);
    CodeWriter& text = emission.text();
    const CodeWriter::Scope block = text.scope();
    text.line("Int64 offset = 0;");
    text.line("TRY(aoti_torch_get_storage_offset(call.inputs[$], &offset));", i);
    text.line("if (offset != $) return call.error = $, 1;", offset, string_literal(refusal));
  }
}

void emit_begin(Emission& emission) {
  const Program& program = emission.program();
  CodeWriter& text = emission.text();
  text.line();
  const CodeWriter::Scope function = text.scope("static int begin(Instance& m, KilnCall& call)");
  if (!program.outputs.empty()) {
    text.line("for (int i = 0; i < $; ++i) call.outputs[i] = nullptr;", program.outputs.size());
  }
  if (emission.operations().asynchronous && emission.flag_count() != 0) {
    text.line("if ((call.error = pending_error(&m))) return 1;");
  }
  if (emission.checks_places) {
    emit_place_checks(emission);
  }
  emit_pointers(emission, Memory::kInput, "inputs");
  emit_pointers(emission, Memory::kConstant, "constants");
  if (program.checks_inputs()) {
    emit_symbols(emission);
  }
  text.line("return 0;");
}

// The buffer whose memory `value` is on, be it by views that libtorch makes.
BufferId memory_of(const Program& program, ir::ValueId value) {
  const ir::Graph& graph = *program.graph;
  const BufferId buffer = program.location(value)->buffer;
  const ir::NodeId producer = graph.value(value).producer;
  if (program.plan(buffer).memory != Memory::kCalleeAllocated || !producer.valid()) {
    return buffer;
  }
  const ir::Node& node = graph.node(producer);
  for (const ir::Alias& alias : aliases_of(graph, node)) {
    const auto* viewed = std::get_if<ir::ValueId>(&node.arguments[alias.argument]);
    if (node.results[alias.result] == value && viewed != nullptr && program.location(*viewed)) {
      return memory_of(program, *viewed);
    }
  }
  return buffer;
}

// Copies the new values of mutated inputs into them.
void emit_mutations(Emission& emission) {
  const Program& program = emission.program();
  const ir::Graph& graph = *program.graph;
  if (program.mutations.empty()) {
    return;
  }
  CodeWriter& text = emission.text();
  // A value that itself lies in a mutated input must be saved before any copy.
  std::set<BufferId> targets;
  for (const std::uint32_t index : program.mutations) {
    targets.insert(program.location(graph.inputs()[graph.outputs()[index].input].value)->buffer);
  }
  std::vector<std::string> sources;
  for (const std::uint32_t index : program.mutations) {
    const ir::ValueId value = graph.outputs()[index].value;
    std::string source = emission.tensor(value, true);
    if (targets.contains(memory_of(program, value))) {
      emission.declare("aoti_torch_clone", "Handle, Handle*");
      const std::string saved = emission.scratch();
      text.line("TRY(aoti_torch_clone($, &$));", source, saved);
      source = saved;
    }
    sources.push_back(source);
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const ir::Output& output = graph.outputs()[program.mutations[i]];
    text.line("TRY(aoti_torch_copy_($, $, 0));",
              emission.tensor(graph.inputs()[output.input].value),
              sources[i]);
  }
  emission.release_scratch();
}

class OutputEmitter {
 public:
  explicit OutputEmitter(Emission& emission)
      : emission_(emission), program_(emission.program()), text_(emission.text()) {}

  void run() {
    allocate_empty();
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      output(program_.outputs[i], "call.outputs[" + std::to_string(i) + "]", i);
    }
    hand_over();
    release_rest();
  }

 private:
  void hand_over() {
    if (!rows_.empty()) {
      text_.line("static const int handed[][2] = {$};", rows_);
      const CodeWriter::Scope loop = text_.scope("for (const auto& [output, owned] : handed)");
      text_.line("call.outputs[output] = m.owned[owned];");
      text_.line("m.owned[owned] = nullptr;");
    }
  }

  // An output without elements is written by no step.
  void allocate_empty() {
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      const BufferPlan& plan = program_.buffers[i];
      if (plan.used && plan.memory == Memory::kAllocated &&
          plan.first >= program_.schedule->steps.size()) {
        emission_.allocate(BufferId(i));
      }
    }
  }

  void output(const Port& port, const std::string& slot, std::size_t index) {
    if (!port.value.valid()) {
      emission_.declare("aoti_torch_new_uninitialized_tensor", "Handle*");
      text_.line("TRY(aoti_torch_new_uninitialized_tensor(&$));", slot);
      return;
    }
    const ir::Value& value = program_.graph->value(port.value);
    if (!value.is_tensor()) {
      emission_.declare("aoti_torch_scalar_to_tensor_int64", "Int64, Handle*");
      text_.line("TRY(aoti_torch_scalar_to_tensor_int64($, &$));",
                 emission_.number(std::get<ir::SymIntMeta>(value.meta).expr),
                 slot);
      return;
    }
    const Location& location = *program_.location(port.value);
    const Memory memory = program_.plan(location.buffer).memory;
    if (program_.plan(memory_of(program_, port.value)).memory == Memory::kConstant) {
      copy(port.value, slot);
      return;
    }
    const bool borrowed = memory == Memory::kInput;
    const std::string base =
        borrowed ? "call.inputs[" + std::to_string(program_.buffer(location.buffer).index) + "]"
                 : emission_.owned(location.buffer);
    if (!is_whole(location, program_.buffer(location.buffer))) {
      emission_.declare("aoti_torch__reinterpret_tensor",
                        "Handle, Int64, const Int64*, const Int64*, Int64, Handle*");
      text_.line("TRY(aoti_torch__reinterpret_tensor($, $, $, $, $, &$));",
                 base,
                 location.sizes.size(),
                 emission_.list(location.sizes),
                 emission_.list(location.strides),
                 emission_.number(location.offset),
                 slot);
    } else if (borrowed || is_wanted_later(location.buffer, index)) {
      emission_.declare("aoti_torch_new_tensor_handle", "Handle, Handle*");
      text_.line("TRY(aoti_torch_new_tensor_handle($, &$));", base, slot);
    } else {
      handed_over_.insert(location.buffer);
      rows_ += (rows_.empty() ? "{" : ", {") + std::to_string(index) + ", " +
               std::to_string(emission_.owned_index(location.buffer)) + "}";
    }
  }

  // What a caller holds may outlive the model, and constants are mapped with it, not to be written.
  void copy(ir::ValueId constant, const std::string& slot) {
    emission_.declare("aoti_torch_clone", "Handle, Handle*");
    text_.line("TRY(aoti_torch_clone($, &$));", emission_.tensor(constant, true), slot);
    emission_.release_scratch();
  }

  [[nodiscard]] bool is_wanted_later(BufferId buffer, std::size_t index) const {
    return std::any_of(program_.outputs.begin() + static_cast<std::ptrdiff_t>(index) + 1,
                       program_.outputs.end(),
                       [&](const Port& other) {
                         return other.value.valid() &&
                                program_.graph->value(other.value).is_tensor() &&
                                program_.location(other.value)->buffer == buffer;
                       });
  }

  // What was made in this run, is alive to its end, and was not handed over.
  void release_rest() {
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      const BufferPlan& plan = program_.buffers[i];
      const bool owned =
          plan.memory == Memory::kAllocated || plan.memory == Memory::kCalleeAllocated;
      if (plan.used && owned && plan.last >= program_.schedule->steps.size() &&
          !handed_over_.contains(BufferId(i))) {
        text_.line("release($);", emission_.owned(BufferId(i)));
      }
    }
  }

  Emission& emission_;
  const Program& program_;
  CodeWriter& text_;
  std::set<BufferId> handed_over_;
  std::string rows_;  // Of what is handed over: the output and the buffer that it is.
};

}  // namespace

void emit_prologue_epilogue(Emission& emission) {
  emit_begin(emission);
  CodeWriter& text = emission.text();
  text.line();
  const CodeWriter::Scope function = text.scope("static int finish(Instance& m, KilnCall& call)");
  emit_mutations(emission);
  OutputEmitter(emission).run();
  text.line("return 0;");
}

}  // namespace kiln::codegen
