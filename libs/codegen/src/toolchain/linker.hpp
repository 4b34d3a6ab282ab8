// The linker that the compiler of this machine is to call: the fastest that works with it.

#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "toolchain/toolchain.hpp"

namespace kiln::codegen {

/// A linker that has linked a shared library for its compiler.
struct Linker {
  std::string name;                ///< "gold", or "the compiler's default" and why not gold.
  std::vector<std::string> flags;  ///< What makes the compiler call it.
  /// A shared object that has libtorch_cpu.so's name and nothing else. Linking with it records the
  /// dependency without reading libtorch's 100,000 symbols, which takes longer than all the rest.
  std::string libtorch_stand_in;
};

/// The linker for `compiler`. Each compiler's is tried once per process, at the first call.
///
/// Throws `Error` with `kIo` if not even the compiler's default works.
[[nodiscard]] const Linker& find_linker(const Compiler& compiler,
                                        std::chrono::milliseconds timeout);

}  // namespace kiln::codegen
