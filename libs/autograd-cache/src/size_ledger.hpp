// How many bytes a store takes, without counting them at each write.
//
// One small file holds the sum; every process adds to it under a lock. A process that is killed
// between its write and its addition leaves the sum a little low; each eviction recounts.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace kiln::autograd_cache {

class SizeLedger {
 public:
  explicit SizeLedger(const std::filesystem::path& root);

  /// Adds `change` and returns the new sum; nothing if no sum is known, which `set` mends.
  std::optional<std::uint64_t> add(std::int64_t change);
  /// The sum, if one is known.
  [[nodiscard]] std::optional<std::uint64_t> read() { return add(0); }
  void set(std::uint64_t sum);

 private:
  std::filesystem::path path_;
};

}  // namespace kiln::autograd_cache
