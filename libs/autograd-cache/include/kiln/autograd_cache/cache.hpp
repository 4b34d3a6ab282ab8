// Compile once, anywhere: entries by key, told apart by guards.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/autograd_cache/artifact_store.hpp"
#include "kiln/autograd_cache/key.hpp"
#include "kiln/autograd_cache/settings.hpp"
#include "kiln/base/digest.hpp"

namespace kiln::autograd_cache {

/// What a compile leaves behind. The cache does not look into any of it.
struct Entry {
  std::string guards;                                  ///< What must hold for this entry to fit.
  std::map<std::string, std::string> blobs;            ///< Small things by name, such as metadata.
  std::map<std::string, std::filesystem::path> files;  ///< Things that must be files, such as model
                                                       ///< libraries; after a hit, in the cache.
};

/// How a cache is opened.
struct CacheOptions {
  std::filesystem::path directory = default_directory();
  std::uint64_t max_bytes = default_limit();
  Mode mode = default_mode();
  bool allow_shared = false;  ///< Accept a directory that other users can write to.
};

/// What happened through one `Cache`.
struct Counters {
  std::uint64_t hit = 0;
  std::uint64_t miss = 0;        ///< No entry under the key, or its files are gone.
  std::uint64_t guard_miss = 0;  ///< Entries under the key, but none whose guards hold.
  std::uint64_t bypass = 0;
  std::uint64_t saved = 0;
  std::uint64_t failed = 0;   ///< Saves that did not succeed.
  std::uint64_t corrupt = 0;  ///< Damaged files found and removed.
  std::uint64_t evicted = 0;
  std::map<std::string, std::uint64_t> bypass_reasons;
};

/// One entry as `Cache::list` shows it.
struct EntrySummary {
  Digest key;
  std::uint64_t bytes_on_disk = 0;  ///< Without its files, which entries may share.
  std::filesystem::file_time_type last_used;
  std::vector<std::string> blobs;
  std::vector<std::string> files;
};

/// Why a key was not found.
struct Explanation {
  Digest nearest;                        ///< The stored key that shares most with it.
  std::vector<std::string> differences;  ///< Components that differ; the first is the likely cause.
};

/// Held while one process compiles what others wait for. Releases on destruction.
class Flight {
 public:
  explicit Flight(std::shared_ptr<const void> lock) : lock_(std::move(lock)) {}
  /// Whether others really wait: false where the file system has no locks, or after the timeout.
  [[nodiscard]] bool exclusive() const noexcept { return lock_ != nullptr; }

 private:
  std::shared_ptr<const void> lock_;
};

/// The cache that a compiler asks before it compiles. Callable from many threads.
///
/// Results never depend on it: whatever goes wrong is a miss (except in `Mode::kStrict`).
class Cache {
 public:
  /// Says whether the conditions in an entry's guards hold now. If it throws, they do not.
  using GuardPredicate = std::function<bool(std::string_view guards)>;

  /// A directory that cannot be used turns the cache off, with one line in the log.
  ///
  /// Throws `Error` with `kIo` in `Mode::kStrict` only.
  explicit Cache(const CacheOptions& options = {});
  ~Cache();

  /// Returns the most recently used entry under `key` whose guards hold. No predicate takes any.
  [[nodiscard]] std::optional<Entry> find(const Key& key, const GuardPredicate& holds = {});

  /// Stores `entry`, and copies of its files, under `key` beside entries with other guards.
  ///
  /// Returns whether it was stored. Throws `Error` with `kIo` in `Mode::kStrict` only.
  bool put(const Key& key, const Entry& entry);

  /// Records that a program cannot be cached. Throws `kUnsupported` in `Mode::kStrict`.
  void bypass(std::string_view reason);

  /// Waits until nobody else compiles `key`, at most `timeout`: look again once you hold it.
  [[nodiscard]] Flight begin_flight(
      const Key& key, std::chrono::milliseconds timeout = std::chrono::minutes(10)) const;

  [[nodiscard]] Counters counters() const;
  [[nodiscard]] StoreStats stats() const;
  /// Every entry, the most recently used first.
  [[nodiscard]] std::vector<EntrySummary> list() const;

  /// Compares `key` with the nearest other key in the cache; nothing if there is none.
  [[nodiscard]] std::optional<Explanation> explain(const Key& key) const;
  /// The key of a stored entry, with its components, or nothing.
  [[nodiscard]] std::optional<Key> stored_key(const Digest& digest) const;

  VerifyReport verify();
  std::uint64_t evict(std::uint64_t max_bytes);
  void clear();

  /// Whether there is a usable directory beneath.
  [[nodiscard]] bool enabled() const noexcept;
  [[nodiscard]] const std::filesystem::path& directory() const noexcept;
  /// The store beneath, for blobs that need no guards. Null if the cache is off.
  [[nodiscard]] ArtifactStore* store() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln::autograd_cache
