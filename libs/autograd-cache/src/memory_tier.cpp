#include "memory_tier.hpp"

#include <sys/stat.h>

#include <utility>

namespace kiln::autograd_cache {

namespace {

std::uint64_t bytes_of(const Entry& entry) {
  std::uint64_t sum = sizeof(Entry) + entry.guards.size();
  for (const auto& [name, bytes] : entry.blobs) {
    sum += name.size() + bytes.size();
  }
  for (const auto& [name, path] : entry.files) {
    sum += name.size() + path.native().size();
  }
  return sum;
}

}  // namespace

std::optional<std::vector<MemoryTier::FileStamp>> MemoryTier::stamps_of(const Entry& entry) {
  std::vector<FileStamp> stamps;
  for (const auto& [name, path] : entry.files) {
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0) {
      return std::nullopt;
    }
    stamps.push_back({.device = status.st_dev,
                      .inode = status.st_ino,
                      .bytes = static_cast<std::uint64_t>(status.st_size)});
  }
  return stamps;
}

void MemoryTier::keep(const Digest& key, const Entry& entry) {
  std::optional<std::vector<FileStamp>> stamps = stamps_of(entry);
  const std::uint64_t bytes = bytes_of(entry);
  if (!stamps || bytes > max_bytes_) {
    return;
  }
  drop(key, entry.guards);
  const std::lock_guard lock(mutex_);
  items_.push_front(std::make_shared<const Item>(Item{key, entry, std::move(*stamps), bytes}));
  by_key_.emplace(key, items_.begin());
  bytes_ += bytes;
  while (bytes_ > max_bytes_) {
    erase(std::prev(items_.end()));
  }
}

std::optional<Entry> MemoryTier::find(const Digest& key,
                                      const std::function<bool(const std::string&)>& holds) {
  // Guards are the caller's code: it runs without our lock.
  for (const auto& item : items_under(key)) {
    if (!holds(item->entry.guards)) {
      continue;
    }
    if (stamps_of(item->entry) == item->stamps) {
      use(item.get());
      return item->entry;
    }
    forget(item.get());
  }
  return std::nullopt;
}

void MemoryTier::drop(const Digest& key, const std::string& guards) {
  for (const auto& item : items_under(key)) {
    if (item->entry.guards == guards) {
      forget(item.get());
    }
  }
}

void MemoryTier::clear() {
  const std::lock_guard lock(mutex_);
  by_key_.clear();
  items_.clear();
  bytes_ = 0;
}

std::vector<std::shared_ptr<const MemoryTier::Item>> MemoryTier::items_under(const Digest& key) {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Item>> items;
  const auto [first, last] = by_key_.equal_range(key);
  for (auto each = first; each != last; ++each) {
    items.push_back(*each->second);
  }
  return items;
}

void MemoryTier::use(const Item* item) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = by_key_.equal_range(item->key);
  for (auto each = first; each != last; ++each) {
    if (each->second->get() == item) {
      items_.splice(items_.begin(), items_, each->second);
      return;
    }
  }
}

void MemoryTier::forget(const Item* item) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = by_key_.equal_range(item->key);
  for (auto each = first; each != last; ++each) {
    if (each->second->get() == item) {
      erase(each->second);
      return;
    }
  }
}

void MemoryTier::erase(Position position) {
  const auto [first, last] = by_key_.equal_range((*position)->key);
  for (auto each = first; each != last; ++each) {
    if (each->second == position) {
      by_key_.erase(each);
      break;
    }
  }
  bytes_ -= (*position)->bytes;
  items_.erase(position);
}

}  // namespace kiln::autograd_cache
