// kiln-precompiled-kernels DIRECTORY: compiles the kernels that know no sizes, when Kiln is built.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <string>
#include <vector>

#include "backend/cpu/kernel_units.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/codegen/target.hpp"
#include "toolchain/precompiled_kernels.hpp"
#include "toolchain/toolchain.hpp"

int main(int count, char** arguments) {
  using namespace kiln::codegen;
  if (count != 2) {
    std::fputs("usage: kiln-precompiled-kernels DIRECTORY\n", stderr);
    return 2;
  }
  try {
    const Options options;
    const Compiler& compiler = find_compiler(options.compiler, options.compiler_timeout);
    // For this machine, and for packages that are made here for others of its kind.
    std::vector<std::string> isas = portable_isas();
    isas.insert(isas.begin(), options.isa);
    std::vector<Unit> units;
    for (const std::string& isa : isas) {
      std::ranges::move(shape_generic_units(resolve_target(isa)), std::back_inserter(units));
    }
    const int made = precompile_kernels(arguments[1], units, compiler);
    std::printf("%d kernels compiled by %s\n", made, compiler.version.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kiln-precompiled-kernels: %s\n", error.what());
    return 1;
  }
  return 0;
}
