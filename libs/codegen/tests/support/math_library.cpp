#include "support/math_library.hpp"

#include <dlfcn.h>

#include <fstream>
#include <sstream>

#include "kiln/base/error.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/codegen/target.hpp"

namespace kiln::codegen {

MathLibrary::MathLibrary(ir::DType dtype, const std::vector<Function>& functions, bool fused)
    : directory_("kiln-math") {
  const Target target = resolve_target("native");
  Prelude prelude(target.vector_bytes);
  prelude.use_memory(dtype);
  const std::string number(memory_type(dtype));
  const std::string vector(vector_type(dtype));
  std::string loops;
  for (const Function& function : functions) {
    prelude.use_function(function.name, dtype);
    loops += "extern \"C\" void sweep_" + function.name + "(const " + number + "* xs, const " +
             number + "* ys, " + number +
             "* results, long n) {\n"
             "  for (long i = 0; i < n; i += kLanes) {\n"
             "    [[maybe_unused]] const " +
             vector + " x = load(xs + i), y = load(ys + i);\n    store(results + i, " +
             function.call + ");\n  }\n}\n";
  }
  const std::string source = (directory_.path() / "math.cpp").string();
  const std::string library = (directory_.path() / "math.so").string();
  std::ofstream(source) << "namespace {\n" << prelude.text() << "}\n" << loops;
  std::vector<std::string> command{"g++",
                                   "-O2",
                                   "-fno-math-errno",
                                   "-fno-trapping-math",
                                   fused ? "-ffp-contract=fast" : "-ffp-contract=off",
                                   "-shared",
                                   "-fPIC",
                                   source,
                                   "-o",
                                   library,
                                   "-lm"};
  std::istringstream flags(target.compiler_flags);
  for (std::string flag; flags >> flag;) {
    command.push_back(flag);
  }
  const ProcessResult compiled = run_process(command);
  if (!compiled.ok()) {
    throw Error(ErrorCode::kInternal, "the math functions do not compile: " + compiled.error);
  }
  handle_ = dlopen(library.c_str(), RTLD_NOW);
  if (handle_ == nullptr) {
    throw Error(ErrorCode::kInternal, "the math functions cannot be loaded");
  }
}

MathLibrary::~MathLibrary() {
  dlclose(handle_);
}

void MathLibrary::sweep(
    const std::string& name, const void* x, const void* y, void* result, long count) const {
  void* const loop = dlsym(handle_, ("sweep_" + name).c_str());
  if (loop == nullptr) {
    throw Error(ErrorCode::kInternal, "there is no loop of " + name);
  }
  reinterpret_cast<void (*)(const void*, const void*, void*, long)>(loop)(x, y, result, count);
}

}  // namespace kiln::codegen
