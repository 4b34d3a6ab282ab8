#include "program/emit.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "kiln/base/error.hpp"
#include "program/dispatcher_call.hpp"
#include "program/expression.hpp"
#include "program/model_text.hpp"

namespace kiln::codegen {
namespace {

// Less is taken from what the process had before, and not from the system.
constexpr std::int64_t kLargeOutput = 32 << 20;

std::string number_list(const Emission& emission, const std::vector<ir::Expr>& values) {
  std::string text;
  for (const ir::Expr& value : values) {
    text += (text.empty() ? "" : ", ") + emission.number(value);
  }
  return text;
}

void emit_instance(SourceText& text, const Emission& emission) {
  const Program& program = emission.program();
  text.line().open("struct Instance {");
  text.line("unsigned char* arena;");
  const bool checks =
      std::ranges::any_of(program.kernels->kernels(), &KernelSource::checks_indices);
  if (checks) {
    text.line("int out_of_range;");
  }
  const auto array = [&](const char* type, const char* name, std::size_t count) {
    if (count != 0) {
      text.line(std::string(type) + " " + name + "[" + std::to_string(count) + "];");
    }
  };
  array("void*", "at", program.buffers.size());
  array("Handle", "owned", emission.owned_count());
  array("View", "view", program.views.size());
  if (program.dynamic()) {
    text.line("bool prepared;");
    text.line("Int64 capacity;");
    text.line("char message[512];");
    for (const ir::SymbolSource& source : program.symbols) {
      text.line("Int64 symbol_" + source.symbol + ";");
    }
    for (std::size_t i = 0; i < emission.lists().size(); ++i) {
      array("Int64", ("n" + std::to_string(i)).c_str(), emission.lists()[i].size());
    }
  }
  text.close("};");
  if (checks) {
    text.line().open("static int refuse_index(Instance& m, KilnCall& call) {");
    text.line("m.out_of_range = 0;");
    text.line("call.error = \"an index is out of range for the dimension that it selects from\";");
    text.line("return 1;");
    text.close();
  }
}

void emit_lifecycle(SourceText& text, const Emission& emission) {
  const Program& program = emission.program();
  text.line().open("static void destroy(void* instance) {");
  text.line("Instance& m = *(Instance*)instance;");
  if (!program.views.empty()) {
    text.line("for (View& view : m.view) release(view.tensor);");
  }
  text.line(emission.operations().free + "(m.arena);");
  text.line("free(instance);");
  text.close();

  text.line().open("static void* create() {");
  text.line("void* const instance = calloc(1, sizeof(Instance));");
  text.line("if (!instance) return nullptr;");
  if (!program.dynamic()) {
    text.open("if (prepare(*(Instance*)instance)) {");
    text.line("destroy(instance);");
    text.line("return nullptr;");
    text.close();
  }
  text.line("return instance;");
  text.close();
}

void emit_run(SourceText& text, const Emission& emission, const std::vector<std::string>& parts) {
  text.line().open("static int run(void* instance, KilnCall* call) {");
  text.line("Instance& m = *(Instance*)instance;");
  text.line("int error = begin(m, *call);");
  for (const std::string& part : parts) {
    text.line("if (!error) error = " + part + "(m, *call);");
  }
  text.line("if (!error) error = finish(m, *call);");
  text.open("if (error) {");
  if (emission.owned_count() != 0) {
    text.line("for (Handle& tensor : m.owned) release(tensor);");
  }
  const std::string count = std::to_string(emission.program().outputs.size());
  text.line("for (int i = 0; i < " + count + "; ++i) release(call->outputs[i]);");
  text.close();
  text.line("return error;");
  text.close();
}

// An instance, its life, and a run of it.
void emit_functions(SourceText& text,
                    Emission& emission,
                    std::span<const std::string> kernel_names) {
  const std::vector<std::string> parts = emit_steps(emission, kernel_names);
  emit_prologue_epilogue(emission);
  SourceText prepare;
  emit_prepare(prepare, emission);
  if (!emission.program().dynamic() && !emission.lists().empty()) {
    text.line();
    for (std::size_t i = 0; i < emission.lists().size(); ++i) {
      text.line("static const Int64 n" + std::to_string(i) + "[] = {" +
                number_list(emission, emission.lists()[i]) + "};");
    }
  }
  emit_instance(text, emission);
  text.verbatim(prepare.text());
  emit_lifecycle(text, emission);
  text.verbatim(emission.text().text());
  emit_run(text, emission, parts);
}

// `text` with the device in it.
std::string on_device(std::string text, const DeviceOperations& operations) {
  constexpr std::string_view kMark = "$DEVICE";
  for (auto at = text.find(kMark); at != std::string::npos; at = text.find(kMark, at)) {
    text.replace(at, kMark.size(), operations.arguments());
  }
  return text;
}

// How each kernel is called: by its name, or through the table of those that were chosen.
std::vector<std::string> callable_names(const std::vector<KernelSet>& kernels) {
  if (kernels.size() == 1) {
    return kernels[0].names;
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kernels[0].names.size(); ++i) {
    names.push_back("chosen[" + std::to_string(i) + "]");
  }
  return names;
}

// The kernels of every instruction set, and the choice among them when the library is loaded.
void emit_choice(SourceText& text,
                 const std::vector<KernelSet>& kernels,
                 const DeviceOperations& operations) {
  const std::string count = std::to_string(kernels.size());
  text.line().line("typedef void Kernel(" + operations.parameters() + ");");
  text.open("static Kernel* const kernels[" + count + "][" +
            std::to_string(kernels[0].names.size() + 1) + "] = {");
  for (const KernelSet& set : kernels) {
    std::string row;
    for (const std::string& name : set.names) {
      row += name + ", ";
    }
    text.line("{" + row + "nullptr},");
  }
  text.close("};");
  text.line("static Kernel* const* chosen = kernels[0];");
  text.open("static __attribute__((constructor)) void choose() {");
  text.open("static const char* const needed[" + count + "] = {");
  for (const KernelSet& set : kernels) {
    text.line(string_literal(set.cpu_features) + ",");
  }
  text.close("};");
  text.line("chosen = kernels[kiln_best_cpu_level(needed, " + count + ")];");
  text.close();
}

std::string extern_nodes(const std::vector<std::string>& nodes) {
  if (nodes.empty()) {
    return {};
  }
  std::string text;
  for (const std::string& node : nodes) {
    text += (text.empty() ? "" : ",\n") + node;
  }
  return "{\"nodes\": [\n" + text + "\n]}\n";
}

}  // namespace

Emission::Emission(const Program& program, const DeviceOperations& operations)
    : program_(program),
      operations_(operations),
      owned_index_(program.buffers.size()),
      laid_(program.views.size()) {
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferPlan& plan = program.buffers[i];
    if (plan.used &&
        (plan.memory == Memory::kAllocated || plan.memory == Memory::kCalleeAllocated)) {
      owned_index_[i] = owned_count_++;
    }
  }
  for (std::size_t i = 0; i < program.views.size(); ++i) {
    // The arena's are made with it.
    laid_[i] = program.plan(program.views[i].buffer).memory == Memory::kArena;
  }
  declare("aoti_torch_delete_tensor_object", "Handle");
  declare("aoti_torch_get_dtype", "Handle, int*");
  declare("aoti_torch_get_dim", "Handle, Int64*");
  declare("aoti_torch_get_sizes", "Handle, Int64**");
  declare("aoti_torch_get_strides", "Handle, Int64**");
  declare("aoti_torch_get_data_ptr", "Handle, void**");
  declare("aoti_torch_empty_strided", "Int64, const Int64*, const Int64*, int, int, int, Handle*");
  declare("aoti_torch_copy_", "Handle, Handle, int");
  declare("aoti_torch_create_tensor_from_blob_v2",
          "void*, Int64, const Int64*, const Int64*, Int64, int, int, int, Handle*, int, const "
          "unsigned char*, Int64");
}

std::string Emission::number(const ir::Expr& expr) const {
  return expr.is_constant() ? std::to_string(*expr.constant()) : to_source(expr, "m.symbol_");
}

std::string Emission::list(const std::vector<ir::Expr>& values) {
  if (values.empty()) {
    return "nullptr";
  }
  std::string key;
  for (const ir::Expr& value : values) {
    key += value.to_string() + ",";
  }
  const auto [entry, added] = list_index_.try_emplace(key, lists_.size());
  if (added) {
    lists_.push_back(values);
  }
  return (program_.dynamic() ? "m.n" : "n") + std::to_string(entry->second);
}

std::string Emission::owned(BufferId buffer) const {
  return "m.owned[" + std::to_string(owned_index_[buffer.index()]) + "]";
}

void Emission::allocate(BufferId id) {
  const Buffer& buffer = program_.buffer(id);
  const std::string layout = std::to_string(buffer.sizes.size()) + ", " + list(buffer.sizes) +
                             ", " + list(buffer.strides) + ", " +
                             std::to_string(static_cast<int>(buffer.dtype));
  const std::int64_t bytes =
      extent_bytes(buffer.sizes, buffer.strides, buffer.dtype).constant().value_or(0);
  const bool is_large = bytes >= kLargeOutput;
  const std::string pointer = "m.at[" + std::to_string(id.index()) + "]";
  if (program_.plan(id).needs_pointer || is_large) {
    text_.line("TRY(make(" + owned(id) + ", " + pointer + ", " + layout + "));");
  } else {
    text_.line("TRY(aoti_torch_empty_strided(" + layout + ", " + operations_.arguments() + ", &" +
               owned(id) + "));");
  }
  if (is_large) {
    text_.line("use_large_pages(" + pointer + ", " + std::to_string(bytes) + "ULL);");
  }
}

std::string Emission::whole(BufferId id) const {
  const std::string index = std::to_string(program_.buffer(id).index);
  switch (program_.plan(id).memory) {
    case Memory::kInput: return "call.inputs[" + index + "]";
    case Memory::kConstant: return "call.constants[" + index + "]";
    default: return owned(id);
  }
}

std::string Emission::byte_offset(const View& view) const {
  return number(view.offset * ir::Expr(ir::size_of(view.dtype)));
}

std::string Emission::lay(std::uint32_t index) {
  const View& view = program_.views[index];
  const std::string offset = byte_offset(view);
  return "TRY(lay(m.view[" + std::to_string(index) + "], m.at[" +
         std::to_string(view.buffer.index()) + "], " + offset + ", " +
         std::to_string(view.sizes.size()) + ", " + list(view.sizes) + ", " + list(view.strides) +
         ", " + std::to_string(static_cast<int>(view.dtype)) + "));";
}

std::string Emission::tensor(ir::ValueId value, bool owning) {
  const Location& location = *program_.location(value);
  if (!needs_view(program_, location)) {
    return whole(location.buffer);
  }
  const ir::TensorMeta& meta = program_.graph->tensor(value);
  if (meta.conjugate || meta.negative) {
    throw Error(ErrorCode::kUnsupported,
                "%" + program_.graph->value(value).name + " is a conjugated or negated view");
  }
  if (owning && program_.plan(location.buffer).memory != Memory::kArena) {
    declare("aoti_torch__reinterpret_tensor",
            "Handle, Int64, const Int64*, const Int64*, Int64, Handle*");
    const std::string name = scratch();
    text_.line("TRY(aoti_torch__reinterpret_tensor(" + whole(location.buffer) + ", " +
               std::to_string(location.sizes.size()) + ", " + list(location.sizes) + ", " +
               list(location.strides) + ", " + number(location.offset) + ", &" + name + "));");
    return name;
  }
  const std::optional<std::uint32_t> found = find_view(program_, location);
  ensure(found.has_value(), "an extern call uses a view that was not planned");
  const std::uint32_t index = *found;
  if (!laid_[index]) {
    laid_[index] = true;
    text_.line(lay(index));
  }
  return "m.view[" + std::to_string(index) + "].tensor";
}

std::string Emission::scratch() {
  const std::uint32_t index = owned_count_ + scratch_++;
  most_scratch_ = std::max(most_scratch_, scratch_);
  return "m.owned[" + std::to_string(index) + "]";
}

void Emission::release_scratch() {
  while (scratch_ > 0) {
    text_.line("release(m.owned[" + std::to_string(owned_count_ + --scratch_) + "]);");
  }
}

std::string Emission::pointer(BufferId id, const ir::Expr& offset) const {
  const std::string base = "m.at[" + std::to_string(id.index()) + "]";
  if (offset == ir::Expr(0)) {
    return base;
  }
  return "(char*)" + base + " + " + byte_offset(id, offset);
}

std::string Emission::byte_offset(BufferId id, const ir::Expr& offset) const {
  return number(offset * ir::Expr(ir::size_of(program_.buffer(id).dtype)));
}

std::string Emission::declare(const std::string& name,
                              const std::string& parameters,
                              const std::string& result) {
  declarations_.try_emplace(name, result + " " + name + "(" + parameters + ");");
  return name;
}

ProgramText emit_program(const Program& program,
                         const Program* fold,
                         const std::vector<KernelSet>& kernels,
                         const DeviceOperations& operations,
                         const ModelDescription& description) {
  const std::vector<std::string> callables = callable_names(kernels);
  const std::span<const std::string> names = callables;
  const std::size_t run_kernels = program.kernels->kernels().size();
  std::map<std::string, std::string> declarations;
  SourceText body;
  bool uses_dispatcher = false;
  if (fold != nullptr) {
    Emission emission(*fold, operations);
    emission.selects_kernels = kernels.size() > 1;
    body.line().line("// What computes the folded constants, once for each set of weights.");
    body.line("namespace folding {");
    emit_functions(body, emission, names.subspan(run_kernels));
    body.line("}  // namespace folding");
    body.verbatim(kModelFold);
    ensure(emission.proxy_nodes.empty(), "a folded constant needs the proxy executor");
    declarations = emission.declarations();
    uses_dispatcher = emission.uses_dispatcher;
  }
  Emission emission(program, operations);
  emission.record_kernels = description.record_kernels;
  emission.libtorch = description.libtorch;
  emission.selects_kernels = kernels.size() > 1;
  emit_functions(body, emission, names.first(run_kernels));
  declarations.insert(emission.declarations().begin(), emission.declarations().end());
  uses_dispatcher = uses_dispatcher || emission.uses_dispatcher;

  SourceText unit;
  unit.line("// " + comment_line(program.graph->name()) + ", made by kiln.");
  unit.verbatim(kModelPreamble);
  unit.line().open("extern \"C\" {");
  unit.line("void* calloc(Size, Size);");
  unit.line("void free(void*);");
  unit.verbatim(operations.declarations);
  if (program.dynamic()) {
    unit.line("int snprintf(char*, Size, const char*, ...);");
  }
  for (const auto& [name, declaration] : declarations) {
    unit.line(declaration);
  }
  unit.line("#define HIDDEN __attribute__((visibility(\"hidden\")))");
  std::set<std::string> functions;
  for (const KernelSet& set : kernels) {
    functions.insert(set.names.begin(), set.names.end());
  }
  for (const std::string& name : functions) {
    unit.line("HIDDEN void " + name + "(" + operations.parameters() + ");");
  }
  unit.line("extern HIDDEN const KilnModel kiln_model;");
  if (kernels.size() > 1) {
    unit.line("HIDDEN int kiln_best_cpu_level(const char* const*, int);");
  }
  unit.close();
  if (kernels.size() > 1) {
    emit_choice(unit, kernels, operations);
  }
  unit.verbatim(on_device(kModelViews, operations));
  unit.verbatim(operations.use_large_pages);
  unit.verbatim(on_device(kModelTensors, operations));
  if (description.record_kernels) {
    unit.verbatim(kModelRanges);
  }
  if (program.dynamic()) {
    unit.verbatim(kExpressionFunctions);
    unit.verbatim(kModelRefusal);
  }
  if (uses_dispatcher) {
    unit.verbatim(kDispatcherFunctions);
  }
  unit.verbatim(body.text());
  emit_table(unit, program, operations, description);
  return {unit.text(), extern_nodes(emission.proxy_nodes)};
}

}  // namespace kiln::codegen
