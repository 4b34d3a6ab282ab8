// Runs another program, without a shell, and waits for it.

#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// How a program is to be run.
struct ProcessOptions {
  std::filesystem::path working_directory = {};         ///< The caller's if empty.
  std::string input = {};                               ///< Fed to the program's standard input.
  std::map<std::string, std::string> environment = {};  ///< Added to the caller's.
  std::optional<std::chrono::milliseconds> timeout =
      {};  ///< After it the program and its children are killed.
};

/// What a program did.
struct ProcessResult {
  int exit_code = 0;       ///< As a shell counts it: 128 + n if signal n ended the program.
  bool timed_out = false;  ///< It was ended because it took too long.
  std::string output;      ///< Standard output.
  std::string error;       ///< Standard error.

  /// Whether it ran to its end and succeeded.
  [[nodiscard]] bool ok() const { return exit_code == 0 && !timed_out; }
};

/// Runs `command` (program, then arguments; the program is looked up in PATH) to its end.
///
/// Throws `Error` with `kIo` if the program cannot be started.
[[nodiscard]] ProcessResult run_process(const std::vector<std::string>& command,
                                        const ProcessOptions& options = {});

/// Ends every program that `run_process` is waiting for, in any thread, with its children, and lets
/// it start no other. For a program that exits because it was interrupted.
void end_processes() noexcept;

/// Returns where PATH finds `program`, or nothing.
[[nodiscard]] std::optional<std::filesystem::path> find_program(const std::string& program);

}  // namespace kiln
