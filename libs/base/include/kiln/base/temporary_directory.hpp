// A directory that disappears with its owner.

#pragma once

#include <filesystem>
#include <string_view>

namespace kiln {

/// A fresh directory under the system's temporary directory, removed with all it holds on
/// destruction.
class TemporaryDirectory {
 public:
  /// Throws `Error` with `kIo` if no directory can be made.
  explicit TemporaryDirectory(std::string_view prefix = "kiln");
  ~TemporaryDirectory();
  TemporaryDirectory(TemporaryDirectory&& other) noexcept;             ///< Leaves the other empty.
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept;  ///< Leaves the other empty.

  /// Where it is.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Gives the directory up: it stays on disk.
  std::filesystem::path release() noexcept;

 private:
  std::filesystem::path path_;
};

}  // namespace kiln
