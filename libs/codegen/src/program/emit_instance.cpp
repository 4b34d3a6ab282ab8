#include <algorithm>
#include <string>
#include <vector>

#include "program/emit.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen {
namespace {

// What a run ends with after a kernel found an index out of range: this one, or, where kernels run
// later, the one before.
void emit_index_refusal(CodeWriter& text, const Emission& emission) {
  const std::string problem = "an index is out of range for the dimension that it selects from";
  if (!emission.operations().asynchronous) {
    text.line();
    const CodeWriter::Scope function =
        text.scope("static int refuse_index(Instance& m, KilnCall& call)");
    text.line("m.out_of_range = 0;");
    text.line("call.error = $;", string_literal(problem));
    text.line("return 1;");
    return;
  }
  const std::string count = std::to_string(emission.flag_count());
  text.line();
  const CodeWriter::Scope function = text.scope("static const char* pending_error(void* instance)");
  text.line("Instance& m = *(Instance*)instance;");
  {
    const CodeWriter::Scope table =
        text.declaration("static const char* const problems[$] =", count);
    for (const KernelSource& kernel : emission.program().kernels->kernels()) {
      if (kernel.checks_indices) {
        const std::string when =
            emission.waits_for_indices ? "" : ", in this run or the one before";
        text.line("$,", string_literal(problem + when + ": the kernel of " + kernel.comment));
      }
    }
  }
  {
    const CodeWriter::Scope loop = text.scope("for (int i = 0; i < $; ++i)", count);
    text.line("if (!m.out_of_range[i]) continue;");
    text.line("m.out_of_range[i] = 0;");
    text.line("return problems[i];");
  }
  text.line("return nullptr;");
}

}  // namespace

void emit_instance(CodeWriter& text, const Emission& emission) {
  const Program& program = emission.program();
  const std::size_t flags = emission.flag_count();
  text.line();
  {
    const CodeWriter::Scope members = text.declaration("struct Instance");
    text.line("unsigned char* arena;");
    if (flags != 0) {
      text.line(emission.operations().asynchronous ? "volatile int* out_of_range;"
                                                   : "int out_of_range;");
    }
    const auto array = [&](const char* type, const char* name, std::size_t count) {
      if (count != 0) {
        text.line("$ $[$];", type, name, count);
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
        text.line("Int64 symbol_$;", source.symbol);
      }
      for (std::size_t i = 0; i < emission.lists().size(); ++i) {
        if (!is_fixed(emission.lists()[i])) {
          array("Int64", ("n" + std::to_string(i)).c_str(), emission.lists()[i].size());
        }
      }
    }
  }
  if (flags != 0) {
    emit_index_refusal(text, emission);
  }
}

void emit_lifecycle(CodeWriter& text, const Emission& emission) {
  const Program& program = emission.program();
  const DeviceOperations& operations = emission.operations();
  const bool has_flags = operations.asynchronous && emission.flag_count() != 0;
  text.line();
  {
    const CodeWriter::Scope function = text.scope("static void destroy(void* instance)");
    text.line("Instance& m = *(Instance*)instance;");
    if (!program.views.empty()) {
      text.line("for (View& view : m.view) release(view.tensor);");
    }
    text.line("$(m.arena);", operations.free);
    if (has_flags) {
      text.line("$((void*)m.out_of_range);", operations.free_flags);
    }
    text.line("free(instance);");
  }

  text.line();
  const CodeWriter::Scope function = text.scope("static void* create()");
  if (operations.asynchronous) {
    text.line("if (load()) return nullptr;");
  }
  text.line("void* const instance = calloc(1, sizeof(Instance));");
  text.line("if (!instance) return nullptr;");
  const auto require = [&](const std::string& condition) {
    const CodeWriter::Scope branch = text.scope("if (!($))", condition);
    text.line("destroy(instance);");
    text.line("return nullptr;");
  };
  if (has_flags) {
    text.line("volatile int*& flags = ((Instance*)instance)->out_of_range;");
    require(code("flags = (volatile int*)$($ * sizeof(int))",
                 operations.allocate_flags,
                 emission.flag_count()));
  }
  if (!program.dynamic()) {
    require("!prepare(*(Instance*)instance)");
  }
  text.line("return instance;");
}

void emit_run(CodeWriter& text, const Emission& emission, const std::vector<std::string>& parts) {
  text.line();
  const CodeWriter::Scope function = text.scope("static int run(void* instance, KilnCall* call)");
  text.line("Instance& m = *(Instance*)instance;");
  text.line("int error = begin(m, *call);");
  for (const std::string& part : parts) {
    text.line("if (!error) error = $(m, *call);", part);
  }
  text.line("if (!error) error = finish(m, *call);");
  if (emission.waits_for_indices && emission.flag_count() != 0) {
    text.line("if (!error && (call->error = $(call->stream))) error = 1;",
              emission.operations().synchronize);
    text.line("if (!error && (call->error = pending_error(instance))) error = 1;");
  }
  {
    const CodeWriter::Scope branch = text.scope("if (error)");
    if (emission.owned_count() != 0) {
      text.line("for (Handle& tensor : m.owned) release(tensor);");
    }
    const std::string count = std::to_string(emission.program().outputs.size());
    text.line("for (int i = 0; i < $; ++i) release(call->outputs[i]);", count);
  }
  text.line("return error;");
}

// What an instance needs of the process: kernels on its device, and functions that libtorch may not
// have.
void emit_load(CodeWriter& text,
               const std::map<std::string, std::string>& lookups,
               const KernelSet& kernels,
               const DeviceOperations& operations) {
  text.line();
  for (const auto& [name, declaration] : lookups) {
    text.line("static $;", declaration);
  }
  const CodeWriter::Scope function = text.scope("static int load()");
  for (const std::string& loader : kernels.loaders) {
    text.line("TRY($());", loader);
  }
  for (const auto& [name, declaration] : lookups) {
    text.line("if (!(*(void**)&$ = $(\"$\"))) return 1;", name, operations.find_function, name);
  }
  text.line("return 0;");
}

}  // namespace kiln::codegen
