#include "support/math_library.hpp"

#include "backend/cpu/emit/type_names.hpp"
#include "backend/cpu/kernels/kernel_headers.hpp"
#include "kiln/codegen/target.hpp"

namespace kiln::codegen {
namespace {

std::string loops_of(ir::DType dtype, const std::vector<MathLibrary::Function>& functions) {
  const std::string number(memory_type(dtype));
  const std::string vector(vector_type(dtype));
  std::string loops;
  for (const MathLibrary::Function& function : functions) {
    loops += "extern \"C\" void sweep_" + function.name + "(const " + number + "* xs, const " +
             number + "* ys, " + number +
             "* results, long n) {\n"
             "  for (long i = 0; i < n; i += kLanes) {\n"
             "    [[maybe_unused]] const " +
             vector + " x = load(xs + i), y = load(ys + i);\n    store(results + i, " +
             function.call + ");\n  }\n}\n";
  }
  const int lanes = resolve_target("native").vector_bytes / 4;
  return "namespace math {\n" + with_kernel_headers(loops, lanes) + "}\n";
}

}  // namespace

MathLibrary::MathLibrary(ir::DType dtype, const std::vector<Function>& functions, bool fused)
    : library_(loops_of(dtype, functions),
               {"-O2", fused ? "-ffp-contract=fast" : "-ffp-contract=off"}) {}

void MathLibrary::sweep(
    const std::string& name, const void* x, const void* y, void* result, long count) const {
  library_.function<void(const void*, const void*, void*, long)>("sweep_" + name)(
      x, y, result, count);
}

}  // namespace kiln::codegen
