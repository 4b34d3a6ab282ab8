#include <algorithm>
#include <string>
#include <vector>

#include "program/emit.hpp"

namespace kiln::codegen {
namespace {

// What a run ends with after a kernel found an index out of range: this one, or, where kernels run
// later, the one before.
void emit_index_refusal(SourceText& text, const Emission& emission) {
  const std::string problem = "an index is out of range for the dimension that it selects from";
  if (!emission.operations().asynchronous) {
    text.line().open("static int refuse_index(Instance& m, KilnCall& call) {");
    text.line("m.out_of_range = 0;");
    text.line("call.error = " + string_literal(problem) + ";");
    text.line("return 1;");
    text.close();
    return;
  }
  const std::string count = std::to_string(emission.flag_count());
  text.line().open("static const char* pending_error(void* instance) {");
  text.line("Instance& m = *(Instance*)instance;");
  text.open("static const char* const problems[" + count + "] = {");
  for (const KernelSource& kernel : emission.program().kernels->kernels()) {
    if (kernel.checks_indices) {
      const std::string when = emission.waits_for_indices ? "" : ", in this run or the one before";
      text.line(string_literal(problem + when + ": the kernel of " + kernel.comment) + ",");
    }
  }
  text.close("};");
  text.open("for (int i = 0; i < " + count + "; ++i) {");
  text.line("if (!m.out_of_range[i]) continue;");
  text.line("m.out_of_range[i] = 0;");
  text.line("return problems[i];");
  text.close();
  text.line("return nullptr;");
  text.close();
}

}  // namespace

void emit_instance(SourceText& text, const Emission& emission) {
  const Program& program = emission.program();
  text.line().open("struct Instance {");
  text.line("unsigned char* arena;");
  const std::size_t flags = emission.flag_count();
  if (flags != 0) {
    text.line(emission.operations().asynchronous ? "volatile int* out_of_range;"
                                                 : "int out_of_range;");
  }
  const auto array = [&](const char* type, const char* name, std::size_t count) {
    if (count != 0) {
      text.line(std::string(type) + " " + name + "[" + std::to_string(count) + "];");
    }
  };
  array("void*", "at", program.buffers.size());
  array("Handle", "owned", emission.owned_count());
  array("View", "view", program.views.size());
  if (program.checks_inputs()) {
    text.line("char message[512];");
  }
  if (program.dynamic()) {
    text.line("bool prepared;");
    text.line("Int64 capacity;");
    for (const ir::SymbolSource& source : program.symbols) {
      text.line("Int64 symbol_" + source.symbol + ";");
    }
    for (std::size_t i = 0; i < emission.lists().size(); ++i) {
      if (!is_fixed(emission.lists()[i])) {
        array("Int64", ("n" + std::to_string(i)).c_str(), emission.lists()[i].size());
      }
    }
  }
  text.close("};");
  if (flags != 0) {
    emit_index_refusal(text, emission);
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
  const DeviceOperations& operations = emission.operations();
  const bool has_flags = operations.asynchronous && emission.flag_count() != 0;
  if (has_flags) {
    text.line(operations.free_flags + "((void*)m.out_of_range);");
  }
  text.line("free(instance);");
  text.close();

  text.line().open("static void* create() {");
  if (operations.asynchronous) {
    text.line("if (load()) return nullptr;");
  }
  text.line("void* const instance = calloc(1, sizeof(Instance));");
  text.line("if (!instance) return nullptr;");
  const auto require = [&](const std::string& condition) {
    text.open("if (!(" + condition + ")) {");
    text.line("destroy(instance);");
    text.line("return nullptr;");
    text.close();
  };
  if (has_flags) {
    text.line("volatile int*& flags = ((Instance*)instance)->out_of_range;");
    require("flags = (volatile int*)" + operations.allocate_flags + "(" +
            std::to_string(emission.flag_count()) + " * sizeof(int))");
  }
  if (!program.dynamic()) {
    require("!prepare(*(Instance*)instance)");
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
  if (emission.waits_for_indices && emission.flag_count() != 0) {
    text.line("if (!error && (call->error = " + emission.operations().synchronize +
              "(call->stream))) error = 1;");
    text.line("if (!error && (call->error = pending_error(instance))) error = 1;");
  }
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

// What an instance needs of the process: kernels on its device, and functions that libtorch may not
// have.
void emit_load(SourceText& text,
               const std::map<std::string, std::string>& lookups,
               const KernelSet& kernels,
               const DeviceOperations& operations) {
  text.line();
  for (const auto& [name, declaration] : lookups) {
    text.line("static " + declaration + ";");
  }
  text.open("static int load() {");
  for (const std::string& loader : kernels.loaders) {
    text.line("TRY(" + loader + "());");
  }
  for (const auto& [name, declaration] : lookups) {
    text.line("if (!(*(void**)&" + name + " = " + operations.find_function + "(\"" + name +
              "\"))) return 1;");
  }
  text.line("return 0;");
  text.close();
}

}  // namespace kiln::codegen
