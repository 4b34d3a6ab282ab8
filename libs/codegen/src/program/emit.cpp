#include "program/emit.hpp"

#include <algorithm>
#include <set>

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

// An instance, its life, and a run of it.
void emit_functions(SourceText& text,
                    Emission& emission,
                    std::span<const std::string> kernel_names) {
  const std::vector<std::string> parts = emit_steps(emission, kernel_names);
  emit_prologue_epilogue(emission);
  SourceText prepare;
  emit_prepare(prepare, emission);
  if (std::ranges::any_of(emission.lists(), is_fixed)) {
    text.line();
  }
  for (std::size_t i = 0; i < emission.lists().size(); ++i) {
    if (is_fixed(emission.lists()[i])) {
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
std::string on_device(const char* text, const DeviceOperations& operations) {
  return replace_all(text, "$DEVICE", operations.arguments());
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

// What the program calls: the host, libtorch's shim, kernels and the container.
void emit_declarations(SourceText& unit,
                       const Program& program,
                       const std::map<std::string, std::string>& declarations,
                       const std::vector<KernelSet>& kernels,
                       const DeviceOperations& operations) {
  unit.line().open("extern \"C\" {");
  unit.line("void* calloc(Size, Size);");
  unit.line("void free(void*);");
  unit.line("#define HIDDEN __attribute__((visibility(\"hidden\")))");
  unit.verbatim(operations.declarations);
  if (program.checks_inputs()) {
    unit.line("int snprintf(char*, Size, const char*, ...);");
  }
  for (const auto& [name, declaration] : declarations) {
    unit.line(declaration);
  }
  std::set<std::string> functions;
  for (const KernelSet& set : kernels) {
    functions.insert(set.names.begin(), set.names.end());
  }
  for (const std::string& name : functions) {
    unit.line("HIDDEN void " + name + "(" + operations.parameters() + ");");
  }
  for (const std::string& loader : kernels[0].loaders) {
    unit.line("HIDDEN int " + loader + "(void);");
  }
  unit.line("extern HIDDEN const KilnModel kiln_model;");
  if (kernels.size() > 1) {
    unit.line("HIDDEN int kiln_best_cpu_level(const char* const*, int);");
  }
  if (program.dynamic()) {
    unit.line("HIDDEN Int64 kiln_plan_arena(const KilnLifetime*, const Int64*, int, Int64*);");
  }
  unit.close();
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

std::string Emission::number(const ir::RealExpr& real) const {
  return to_source(real, "m.symbol_");
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
  return (is_fixed(values) ? "n" : "m.n") + std::to_string(entry->second);
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
  const bool is_large = bytes >= kLargeOutput && !operations_.use_large_pages.empty();
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

std::string Emission::make_view(std::uint32_t index) {
  const View& view = program_.views[index];
  const std::string offset = byte_offset(view);
  return "TRY(make_view(m.view[" + std::to_string(index) + "], m.at[" +
         std::to_string(view.buffer.index()) + "], " + offset + ", " +
         std::to_string(view.sizes.size()) + ", " + list(view.sizes) + ", " + list(view.strides) +
         ", " + std::to_string(static_cast<int>(view.dtype)) + "));";
}

std::string Emission::reinterpreted(const Location& location) {
  declare("aoti_torch__reinterpret_tensor",
          "Handle, Int64, const Int64*, const Int64*, Int64, Handle*");
  const std::string name = scratch();
  text_.line("TRY(aoti_torch__reinterpret_tensor(" + whole(location.buffer) + ", " +
             std::to_string(location.sizes.size()) + ", " + list(location.sizes) + ", " +
             list(location.strides) + ", " + number(location.offset) + ", &" + name + "));");
  return name;
}

std::string Emission::detached(ir::ValueId value) {
  const Location& location = *program_.location(value);
  return program_.plan(location.buffer).memory == Memory::kArena ? tensor(value)
                                                                 : reinterpreted(location);
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
    return reinterpreted(location);
  }
  const std::optional<std::uint32_t> found = find_view(program_, location);
  ensure(found.has_value(), "an extern call uses a view that was not planned");
  const std::uint32_t index = *found;
  if (!laid_[index]) {
    laid_[index] = true;
    text_.line(make_view(index));
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

std::string Emission::declare_for_device(const std::string& name, const std::string& parameters) {
  const std::string full = operations_.shim_prefix + name;
  if (operations_.find_function.empty()) {
    return declare(full, parameters);
  }
  lookups_.try_emplace(full, "int (*" + full + ")(" + parameters + ")");
  return full;
}

std::optional<std::size_t> Emission::flag(std::uint32_t kernel) const {
  const std::vector<KernelSource>& kernels = program_.kernels->kernels();
  if (!kernels[kernel].checks_indices) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(
      std::count_if(kernels.begin(), kernels.begin() + kernel, [](const KernelSource& other) {
        return other.checks_indices;
      }));
}

std::size_t Emission::flag_count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(program_.kernels->kernels(), &KernelSource::checks_indices));
}

ProgramText emit_program(const Program& program,
                         const Program* fold,
                         const std::vector<KernelSet>& kernels,
                         const DeviceOperations& operations,
                         const ModelDescription& description) {
  const std::vector<std::string> callables = callable_names(kernels);
  const std::span<const std::string> names = callables;
  const std::size_t run_kernels = program.kernels->kernels().size();
  std::map<std::string, std::string> declarations, lookups;
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
    lookups = emission.lookups();
    uses_dispatcher = emission.uses_dispatcher;
  }
  Emission emission(program, operations);
  emission.record_kernels = description.record_kernels;
  emission.checks_places = description.check_inputs;
  emission.waits_for_indices = description.waits_for_indices && operations.asynchronous;
  emission.libtorch = description.libtorch;
  emission.selects_kernels = kernels.size() > 1;
  emit_functions(body, emission, names.first(run_kernels));
  declarations.insert(emission.declarations().begin(), emission.declarations().end());
  lookups.insert(emission.lookups().begin(), emission.lookups().end());
  uses_dispatcher = uses_dispatcher || emission.uses_dispatcher;

  SourceText unit;
  unit.line("// " + comment_line(program.graph->name()) + ", made by kiln.");
  unit.verbatim(kModelPreamble);
  emit_declarations(unit, program, declarations, kernels, operations);
  if (kernels.size() > 1) {
    emit_choice(unit, kernels, operations);
  }
  if (operations.asynchronous) {
    emit_load(unit, lookups, kernels[0], operations);
  }
  unit.verbatim(on_device(kModelViews, operations));
  unit.verbatim(operations.use_large_pages);
  unit.verbatim(on_device(kModelTensors, operations));
  if (description.record_kernels) {
    unit.verbatim(kModelRanges);
  }
  if (program.dynamic()) {
    unit.verbatim(kExpressionFunctions);
  }
  if (program.checks_inputs()) {
    unit.verbatim(kModelRefusal);
  }
  if (uses_dispatcher) {
    unit.verbatim(kDispatcherFunctions);
  }
  unit.verbatim(body.text());
  emit_table(unit, emission, description);
  return {unit.text(), extern_nodes(emission.proxy_nodes)};
}

}  // namespace kiln::codegen
