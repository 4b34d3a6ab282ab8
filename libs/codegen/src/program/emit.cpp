// The whole of a program as C++.

#include "program/emit.hpp"

#include <algorithm>
#include <set>

#include "kiln/base/error.hpp"
#include "program/dispatcher_call.hpp"
#include "program/expression.hpp"
#include "program/model_text.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen {
namespace {

std::string number_list(const Emission& emission, const std::vector<ir::Expr>& values) {
  std::string text;
  for (const ir::Expr& value : values) {
    text += (text.empty() ? "" : ", ") + emission.number(value);
  }
  return text;
}

// An instance, its life, and a run of it.
void emit_functions(CodeWriter& text,
                    Emission& emission,
                    std::span<const std::string> kernel_names) {
  const std::vector<std::string> parts = emit_steps(emission, kernel_names);
  emit_prologue_epilogue(emission);
  CodeWriter prepare;
  emit_prepare(prepare, emission);
  if (std::ranges::any_of(emission.lists(), is_fixed)) {
    text.line();
  }
  for (std::size_t i = 0; i < emission.lists().size(); ++i) {
    if (is_fixed(emission.lists()[i])) {
      text.line("static const Int64 n$[] = {$};", i, number_list(emission, emission.lists()[i]));
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
void emit_choice(CodeWriter& text,
                 const std::vector<KernelSet>& kernels,
                 const DeviceOperations& operations) {
  const std::string count = std::to_string(kernels.size());
  text.line().line("typedef void Kernel($);", operations.parameters());
  {
    const CodeWriter::Scope table = text.declaration(
        "static Kernel* const kernels[$][$] =", count, kernels[0].names.size() + 1);
    for (const KernelSet& set : kernels) {
      std::string row;
      for (const std::string& name : set.names) {
        row += name + ", ";
      }
      text.line("{$nullptr},", row);
    }
  }
  text.line("static Kernel* const* chosen = kernels[0];");
  const CodeWriter::Scope function =
      text.scope("static __attribute__((constructor)) void choose()");
  {
    const CodeWriter::Scope declaration =
        text.declaration("static const char* const needed[$] =", count);
    for (const KernelSet& set : kernels) {
      text.line("$,", string_literal(set.cpu_features));
    }
  }
  text.line("chosen = kernels[kiln_best_cpu_level(needed, $)];", count);
}

std::string extern_nodes(const std::vector<std::string>& nodes) {
  if (nodes.empty()) {
    return {};
  }
  std::string text;
  for (const std::string& node : nodes) {
    text += (text.empty() ? "" : ",\n") + node;
  }
  return code("{\"nodes\": [\n$\n]}\n", text);
}

// What the program calls: the host, libtorch's shim, kernels and the container.
void emit_declarations(CodeWriter& unit,
                       const Program& program,
                       const std::map<std::string, std::string>& declarations,
                       const std::vector<KernelSet>& kernels,
                       const DeviceOperations& operations) {
  unit.line();
  const CodeWriter::Scope linkage = unit.scope("extern \"C\"");
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
    unit.line("HIDDEN void $($);", name, operations.parameters());
  }
  for (const std::string& loader : kernels[0].loaders) {
    unit.line("HIDDEN int $(void);", loader);
  }
  unit.line("extern HIDDEN const KilnModel kiln_model;");
  if (kernels.size() > 1) {
    unit.line("HIDDEN int kiln_best_cpu_level(const char* const*, int);");
  }
  if (program.dynamic()) {
    unit.line("HIDDEN Int64 kiln_plan_arena(const KilnLifetime*, const Int64*, int, Int64*);");
  }
}

}  // namespace

ProgramText emit_program(const Program& program,
                         const Program* fold,
                         const std::vector<KernelSet>& kernels,
                         const DeviceOperations& operations,
                         const ModelDescription& description) {
  const std::vector<std::string> callables = callable_names(kernels);
  const std::span<const std::string> names = callables;
  const std::size_t run_kernels = program.kernels->kernels().size();
  std::map<std::string, std::string> declarations, lookups;
  CodeWriter body;
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

  CodeWriter unit;
  unit.line("// $, made by kiln.", comment_line(program.graph->name()));
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
