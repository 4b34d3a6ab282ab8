// The part of `ArtifactStore` that looks at all files: statistics, verification, eviction.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>
#include <vector>

#include "content_digest.hpp"
#include "file_lock.hpp"
#include "kiln/autograd_cache/artifact_store.hpp"
#include "layout.hpp"
#include "size_ledger.hpp"

namespace kiln::autograd_cache {

namespace {

std::uint64_t total_bytes(const std::vector<StoredFile>& files) {
  std::uint64_t sum = 0;
  for (const StoredFile& file : files) {
    sum += file.bytes;
  }
  return sum;
}

}  // namespace

StoreStats ArtifactStore::stats() const {
  StoreStats stats;
  for (const StoredFile& file : all_files(root_)) {
    switch (file.kind) {
      case Kind::kBlob: ++stats.blobs; break;
      case Kind::kFile: ++stats.files; break;
      case Kind::kVariant: ++stats.variants; break;
    }
    stats.bytes += file.bytes;
  }
  return stats;
}

void ArtifactStore::visit_variants(const std::function<void(const Variant&)>& visit) const {
  for (const StoredFile& file : all_files(root_)) {
    if (file.kind != Kind::kVariant) {
      continue;
    }
    if (const std::optional<MappedBlob> content = load(file.path, file.key)) {
      visit({.key = file.key,
             .bytes_on_disk = file.bytes,
             .last_used = file.last_used,
             .content = content->bytes()});
    }
  }
}

VerifyReport ArtifactStore::verify() {
  VerifyReport report;
  for (const StoredFile& file : all_files(root_)) {
    const std::uint64_t before = corrupt_;
    if (file.kind == Kind::kFile) {
      const std::optional<MappedBlob> content = MappedBlob::map(file.path);
      if (content && content_digest(content->bytes()) != file.content) {
        drop(file.path);
      }
    } else {
      static_cast<void>(load(file.path, file.key));
    }
    ++report.checked;
    report.removed += corrupt_ - before;
  }
  return report;
}

void ArtifactStore::stay_within_limit(std::uint64_t added) {
  const auto count = [&] { return total_bytes(all_files(root_)); };
  if (SizeLedger(root_).add(static_cast<std::int64_t>(added), count) > options_.max_bytes) {
    remove_oldest(bytes_after_eviction(), std::chrono::seconds(0));
  }
}

std::uint64_t ArtifactStore::bytes_after_eviction() const {
  // A tenth below the limit, or else the next write would begin it all again.
  return options_.max_bytes - options_.max_bytes / 10;
}

std::uint64_t ArtifactStore::evict(std::uint64_t max_bytes) {
  return options_.read_only ? 0 : remove_oldest(max_bytes, std::chrono::minutes(1));
}

std::uint64_t ArtifactStore::remove_oldest(std::uint64_t max_bytes,
                                           std::chrono::milliseconds patience) {
  // Two evictions at once would remove twice as much as they should.
  const auto lock = FileLock::acquire(root_ / "evicting", patience);
  if (!lock) {
    return 0;
  }
  SizeLedger ledger(root_);
  const std::optional<std::uint64_t> recorded = ledger.read();
  std::vector<StoredFile> files = all_files(root_);
  const std::uint64_t found = total_bytes(files);
  // A time in the future means that the clock has been set back since. Every new file would look
  // older than such a file, whose last use is unknown, so it is removed first.
  const auto now = std::filesystem::file_time_type::clock::now() + std::chrono::minutes(1);
  for (StoredFile& file : files) {
    if (file.last_used > now) {
      file.last_used = std::filesystem::file_time_type::min();
    }
  }
  std::sort(files.begin(), files.end(), [](const StoredFile& a, const StoredFile& b) {
    return a.last_used < b.last_used;
  });

  std::uint64_t removed = 0;
  for (const StoredFile& file : files) {
    if (found - removed <= max_bytes) {
      break;
    }
    if (::unlink(file.path.c_str()) == 0) {
      removed += file.bytes;
      ++evicted_;
    }
  }
  const auto count = [&] { return total_bytes(all_files(root_)); };
  if (recorded) {
    // As a difference, not as a new sum: other processes went on writing during the count.
    ledger.add(static_cast<std::int64_t>(found - removed) - static_cast<std::int64_t>(*recorded),
               count);
  } else {
    ledger.recount(count);
  }
  remove_abandoned_temporaries(root_);
  return removed;
}

void ArtifactStore::clear() {
  if (options_.read_only) {
    return;
  }
  for (const StoredFile& file : all_files(root_)) {
    ::unlink(file.path.c_str());
  }
  remove_abandoned_temporaries(root_);
  remove_empty_directories(root_);
  SizeLedger(root_).recount([&] { return total_bytes(all_files(root_)); });
}

}  // namespace kiln::autograd_cache
