#include "toolchain/compile_flags.hpp"

namespace kiln::codegen {

const std::vector<std::string>& common_compile_flags() {
  static const std::vector<std::string> flags{"-std=c++17",
                                              "-fPIC",
                                              "-fno-plt",
                                              "-fvisibility=hidden",
                                              "-fno-exceptions",
                                              "-fno-rtti",
                                              "-fno-asynchronous-unwind-tables",
                                              "-w"};
  return flags;
}

std::vector<std::string> program_compile_flags() {
  std::vector<std::string> flags = common_compile_flags();
  // Numbers that depend on sizes have the bits that the program's own have.
  flags.insert(flags.end(), {"-O1", "-ffp-contract=off", "-fno-math-errno"});
  return flags;
}

}  // namespace kiln::codegen
