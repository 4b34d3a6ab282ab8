// PyTorch's AOTInductor, where there is a Python that has it.

#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace kiln::demo {

/// What AOTInductor made of the same program, and what PyTorch's own loader says of our package.
struct Peer {
  std::filesystem::path package;  ///< AOTInductor's.
  double compile_ms = 0;
  double jit_compile_ms = 0;      ///< Of torch.compile: its first call.
  double jit_call_ms = 0;         ///< A call of what torch.compile made, from Python.
  double largest_difference = 0;  ///< Between our package, run by PyTorch, and the program.
};

/// Compiles the archive `program` with AOTInductor into `package` and with torch.compile, and runs
/// our package `ours` in PyTorch's loader on the archive's sample inputs. Nothing if there is no
/// such Python
/// ($KILN_PYTHON, else .venv/bin/python).
[[nodiscard]] std::optional<Peer> run_peer(const std::filesystem::path& program,
                                           const std::filesystem::path& ours,
                                           const std::filesystem::path& package);

}  // namespace kiln::demo
