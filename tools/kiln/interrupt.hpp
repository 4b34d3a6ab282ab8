// Ctrl-C: what was begun is ended and removed, whatever the program is doing.

#pragma once

#include <atomic>
#include <filesystem>
#include <memory>

namespace kiln::tool {

/// While it lives, every temporary file of this program and of the compilers that it calls lies in
/// one directory, and SIGINT, SIGTERM and SIGHUP end the compilers, remove that directory and what
/// is pending beside a product (`PendingFile`), and exit with 128 + the signal's number. One that
/// was ignored before stays so: a command under `nohup` outlives its terminal.
///
/// To be made before any thread is: it blocks the signals for those that come after it.
class CleanInterruption {
 public:
  CleanInterruption();
  /// Leaves the directory if something was left in it on purpose: the source of a compile that
  /// failed.
  ~CleanInterruption();
  /// Returns if nothing has interrupted the program; else the program ends here, when all is
  /// removed. For whoever meets a failure that may come from the interruption itself.
  void check() const;
  CleanInterruption(const CleanInterruption&) = delete;
  CleanInterruption& operator=(const CleanInterruption&) = delete;

 private:
  std::filesystem::path directory_;
  std::shared_ptr<std::atomic<bool>> interrupted_;
};

}  // namespace kiln::tool
