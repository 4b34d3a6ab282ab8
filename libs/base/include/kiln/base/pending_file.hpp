// A file that is written beside its place, and takes it once it is whole.

#pragma once

#include <filesystem>

namespace kiln {

/// Where a file is while it is written. It is removed on destruction, unless it has its place then.
class PendingFile {
 public:
  /// Creates nothing. Throws `Error` with `kIo` after `remove_pending_files`.
  explicit PendingFile(std::filesystem::path path);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  /// Where it is.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Gives the file its place, once. Throws `Error` with `kIo`; the place is then as it was.
  void rename_to(const std::filesystem::path& place);

 private:
  std::filesystem::path path_;
};

/// Removes all files that are pending, in any thread, and lets no other be begun. For a program
/// that exits because it was interrupted.
void remove_pending_files() noexcept;

}  // namespace kiln
