// How many bytes a store takes, without counting them at each write.
//
// One small file holds the sum and its complement (8 bytes each, little-endian); every process adds
// to it under a lock. Where the two do not match, as in a file that was torn or is of another
// version, the store is counted anew. A process that is killed between its write and its addition
// leaves the sum a little low; each eviction recounts.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

namespace kiln::autograd_cache {

class SizeLedger {
 public:
  /// Counts what the store takes now.
  using Count = std::function<std::uint64_t()>;

  explicit SizeLedger(const std::filesystem::path& root);

  /// Adds `change`, of what was written or removed already, and returns the new sum; where none is
  /// known, what `count` returns.
  std::uint64_t add(std::int64_t change, const Count& count);
  /// The sum, if one is known.
  [[nodiscard]] std::optional<std::uint64_t> read() const;
  /// Makes what `count` returns the sum; nobody adds to it meanwhile.
  void recount(const Count& count);

 private:
  std::filesystem::path path_;
};

}  // namespace kiln::autograd_cache
