// The C++ compiler of this machine: found, tried once, and called.

#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kiln::codegen {

/// A compiler that has been seen to work.
struct Compiler {
  std::vector<std::string> command;  ///< Program and what must follow it, as in "ccache g++".
  std::string version;               ///< The first line of --version.
  std::string flags;  ///< Those in `command`, with blanks between them: "-ffast-math".

  /// What tells its objects from those of another, wherever either is installed.
  [[nodiscard]] std::string identity() const {
    return version + (flags.empty() ? "" : " ") + flags;
  }
};

/// Finds `wanted`, or what $KILN_CXX or $CXX names, or g++ or clang++. Each is tried once per
/// process.
///
/// Throws `Error` with `kIo` if there is none or it does not work.
[[nodiscard]] const Compiler& find_compiler(const std::string& wanted,
                                            std::chrono::milliseconds timeout);

/// What tells the compiler that `wanted` leads to from another, without running it; nothing if
/// there is none.
[[nodiscard]] std::optional<std::string> stamp_of_compiler(const std::string& wanted);

/// Runs `compiler` with `arguments`.
///
/// Throws `Error` with `kIo` if it fails or takes longer than `timeout`: `what` failed, the first
/// lines of its messages, and `source`, the file that it was about.
void run_compiler(const Compiler& compiler,
                  const std::vector<std::string>& arguments,
                  std::chrono::milliseconds timeout,
                  const std::string& what,
                  const std::filesystem::path& source);

}  // namespace kiln::codegen
