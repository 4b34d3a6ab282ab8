// Entries that this process has seen, so that the next caller need not read them from the disk.

#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/digest.hpp"

namespace kiln::autograd_cache {

/// A bounded set of entries, the least recently used of which go first. Callable from many threads.
class MemoryTier {
 public:
  explicit MemoryTier(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  /// Keeps `entry`, whose files have just been found intact.
  void keep(const Digest& key, const Entry& entry);

  /// An entry under `key` that `holds` accepts. One whose files are no longer those that were kept
  /// is forgotten.
  [[nodiscard]] std::optional<Entry> find(
      const Digest& key, const std::function<bool(const std::string& guards)>& holds);

  /// Forgets the entry under `key` that has these guards.
  void drop(const Digest& key, const std::string& guards);
  void clear();

 private:
  // Which file it was: whoever replaces one in the store makes a new one.
  struct FileStamp {
    std::uint64_t device = 0, inode = 0, bytes = 0;
    bool operator==(const FileStamp&) const = default;
  };
  struct Item {
    Digest key;
    Entry entry;
    std::vector<FileStamp> stamps;
    std::uint64_t bytes = 0;
  };
  using Position = std::list<std::shared_ptr<const Item>>::iterator;

  static std::optional<std::vector<FileStamp>> stamps_of(const Entry& entry);
  std::vector<std::shared_ptr<const Item>> items_under(const Digest& key);
  void use(const Item* item);
  void forget(const Item* item);
  void erase(Position position);

  std::uint64_t max_bytes_;
  std::mutex mutex_;  // Guards what follows.
  std::uint64_t bytes_ = 0;
  std::list<std::shared_ptr<const Item>> items_;  // The most recently used first.
  std::unordered_multimap<Digest, Position> by_key_;
};

}  // namespace kiln::autograd_cache
