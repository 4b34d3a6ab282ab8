// The disk tier of the cache: bytes by digest, nothing else.
//
// The store does not know what a graph or a kernel is. Whoever uses it computes the keys (key.hpp)
// and gives the bytes their meaning (record.hpp).

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <span>

#include "kiln/autograd_cache/mapped_blob.hpp"
#include "kiln/autograd_cache/record.hpp"
#include "kiln/base/digest.hpp"
#include "kiln/base/file.hpp"

namespace kiln::autograd_cache {

/// How a store behaves.
struct StoreOptions {
  /// What the files may take together; the least recently used go first. Nothing is stored that
  /// would itself take more than nine tenths of it, which is what an eviction leaves.
  std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max();
  bool read_only = false;     ///< Nothing is written, touched or removed.
  bool allow_shared = false;  ///< Accept a directory that other users own or can write to.
  /// Of files and variants. Blobs are parts that can be made again: they are never waited for.
  Durability durability = Durability::kFlushed;
};

/// Whether bytes may be packed on disk.
enum class Compression {
  kWhereItPays,  ///< Packed if that saves a good part; such a blob is unpacked at each `find`.
  kNever,        ///< Always mapped as it is.
};

/// What the user of `find_variant` thinks of a variant.
enum class Verdict { kTake, kSkip, kDrop };

/// What a store holds.
struct StoreStats {
  std::uint64_t blobs = 0;     ///< Small values.
  std::uint64_t files = 0;     ///< What must be a file, such as a library.
  std::uint64_t variants = 0;  ///< Entries; a key may have several.
  std::uint64_t bytes = 0;     ///< Of all of them, on disk.
};

/// What happened to a store through this object.
struct StoreCounters {
  std::uint64_t corrupt = 0;  ///< Damaged files found and removed.
  std::uint64_t evicted = 0;  ///< Files removed to stay within the limit.
  std::uint64_t failed = 0;   ///< Writes that did not succeed.
};

/// What `verify` found.
struct VerifyReport {
  std::uint64_t checked = 0;  ///< Files that were read.
  std::uint64_t removed = 0;  ///< Of those, the damaged ones.
};

/// Immutable blobs, files and variants under one directory, named by digest.
///
/// Any number of threads and processes may share a directory. What is stored appears whole or not
/// at all; what is damaged is removed and was never there. Once constructed, a store throws
/// nothing because of its disk: a failed read is a miss, and the first failed write turns writing
/// off (with one line in the log).
class ArtifactStore {
 public:
  /// Opens `root`, creating it (for its owner alone) if it is absent.
  ///
  /// Throws `Error` with `kIo` if `root` cannot be used. Blobs hold machine code, so a directory
  /// that others can write to, or to whose folders they can, is refused unless
  /// `options.allow_shared`.
  explicit ArtifactStore(std::filesystem::path root, StoreOptions options = {});
  ArtifactStore(const ArtifactStore&) = delete;
  ArtifactStore& operator=(const ArtifactStore&) = delete;

  /// Returns the blob stored under `key`, or nothing if there is none.
  [[nodiscard]] std::optional<MappedBlob> find(const Digest& key) const;
  /// Stores `blob` under `key`; if two callers race, either blob may remain. Returns whether it
  /// was stored.
  bool put(const Digest& key,
           std::span<const std::byte> blob,
           Compression compression = Compression::kWhereItPays);

  /// Returns the path of the file stored under `key`, fit for dlopen, or nothing.
  ///
  /// Another process may evict it at any time: a caller that then fails to open it has a miss.
  [[nodiscard]] std::optional<std::filesystem::path> find_file(const Digest& key) const;
  /// Stores a copy of `source` under `key`, uncompressed. Returns whether it was stored.
  bool put_file(const Digest& key, const std::filesystem::path& source);
  /// Stores a copy of `source` under the digest of its content; returns how to ask for it.
  std::optional<FileReference> put_file(const std::filesystem::path& source);
  /// Stores `bytes` as the file `reference`, unless they are not what it promises.
  bool put_file(const FileReference& reference, std::span<const std::byte> bytes);
  /// The file that was stored under its content, or nothing.
  [[nodiscard]] std::optional<std::filesystem::path> find_file(
      const FileReference& reference) const;

  /// Offers the variants under `key` to `judge`, the most recently used first, until it takes one.
  ///
  /// Dropped variants are removed. What `judge` throws passes through.
  [[nodiscard]] std::optional<MappedBlob> find_variant(
      const Digest& key, const std::function<Verdict(std::span<const std::byte>)>& judge) const;
  /// Stores `variant` in addition to the others under `key`. Returns whether it was stored.
  bool put_variant(const Digest& key, std::span<const std::byte> variant);
  /// Whether `variant` is one of those under `key`.
  [[nodiscard]] bool has_variant(const Digest& key, std::span<const std::byte> variant) const;
  /// Removes `variant` from those under `key`, if it is there.
  void drop_variant(const Digest& key, std::span<const std::byte> variant);

  /// One stored variant, as `visit_variants` shows it.
  struct Variant {
    Digest key;                                 ///< The key it is stored under.
    std::uint64_t bytes_on_disk;                ///< After compression.
    std::filesystem::file_time_type last_used;  ///< When it was last taken.
    std::span<const std::byte> content;         ///< As it was put.
  };
  /// Shows every intact variant, in no order, without counting it as used.
  void visit_variants(const std::function<void(const Variant&)>& visit) const;

  [[nodiscard]] StoreStats stats() const;        ///< What the directory holds now.
  [[nodiscard]] StoreCounters counters() const;  ///< What happened through this object so far.

  /// Checks every file against its checksum and removes those that fail.
  VerifyReport verify();
  /// Removes the least recently used files until at most `max_bytes` remain. Returns how many bytes
  /// went.
  std::uint64_t evict(std::uint64_t max_bytes);
  /// Removes everything that the store put under its root, and nothing else.
  void clear();

  /// The directory.
  [[nodiscard]] const std::filesystem::path& root() const noexcept { return root_; }
  /// Who may write to what it creates: others than the owner only if it is to be shared.
  [[nodiscard]] Writers writers() const noexcept {
    return options_.allow_shared ? Writers::kByUmask : Writers::kOwnerOnly;
  }
  /// Whether writes are still tried.
  [[nodiscard]] bool writable() const noexcept { return writable_; }

 private:
  bool put_file(const Digest& key,
                std::span<const std::byte> bytes,
                const FileReference& reference);
  [[nodiscard]] std::optional<MappedBlob> load(const std::filesystem::path& path,
                                               const Digest& key) const;
  [[nodiscard]] bool intact(const std::filesystem::path& path, const Digest& content) const;
  bool write(const std::filesystem::path& path,
             std::span<const std::byte> bytes,
             Durability durability);
  void touch(const std::filesystem::path& path) const;
  void drop(const std::filesystem::path& path) const;
  void remove(const std::filesystem::path& path) const;
  void stay_within_limit(std::uint64_t added);
  [[nodiscard]] std::uint64_t bytes_after_eviction() const;
  std::uint64_t remove_oldest(std::uint64_t max_bytes, std::chrono::milliseconds patience);

  std::filesystem::path root_;
  StoreOptions options_;
  std::atomic<bool> writable_;
  mutable std::atomic<std::uint64_t> corrupt_ = 0;
  std::atomic<std::uint64_t> evicted_ = 0;
  std::atomic<std::uint64_t> failed_ = 0;
};

}  // namespace kiln::autograd_cache
