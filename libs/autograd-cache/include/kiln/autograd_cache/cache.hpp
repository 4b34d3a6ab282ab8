// Compile once, anywhere: entries by key, distinguished by guards.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/autograd_cache/artifact_store.hpp"
#include "kiln/autograd_cache/counters.hpp"
#include "kiln/autograd_cache/key.hpp"
#include "kiln/autograd_cache/remote_store.hpp"
#include "kiln/autograd_cache/settings.hpp"
#include "kiln/base/digest.hpp"

namespace kiln::autograd_cache {

/// What a compile leaves behind. The cache does not look into any of it.
struct Entry {
  std::string guards = {};  ///< What must hold for this entry to fit.
  /// Small things by name, such as metadata.
  std::map<std::string, std::string> blobs = {};
  /// Things that must be files, such as model libraries; in the cache, once found or obtained.
  std::map<std::string, std::filesystem::path> files = {};
};

/// How a cache is opened.
struct CacheOptions {
  std::filesystem::path directory = default_directory();  ///< Where it lies.
  std::uint64_t max_bytes = default_limit();     ///< The least recently used go beyond this.
  Mode mode = default_mode();                    ///< What it may do, and what is an error.
  bool allow_shared = default_allow_shared();    ///< Take a directory that others can write to.
  Durability durability = default_durability();  ///< Whether saves survive a loss of power.
  std::uint64_t memory_bytes = 64 << 20;  ///< What this process may keep in memory; 0: nothing.

  std::string remote = default_remote();  ///< An address for `open_remote`; empty: no remote tier.
  std::shared_ptr<RemoteStore> remote_store = {};  ///< Used instead of `remote`.
  /// Signs what goes to the remote tier and into bundles; what is not signed with it is refused.
  std::string secret = default_secret();
};

/// One entry as `Cache::list` shows it.
struct EntrySummary {
  Digest key;                                 ///< Of all its components.
  std::uint64_t bytes_on_disk = 0;            ///< Without its files, which entries may share.
  std::uint64_t file_bytes = 0;               ///< Of its files.
  std::filesystem::file_time_type last_used;  ///< When it was last found.
  std::string guards;                         ///< When it may be used, as its maker wrote it.
  std::vector<std::string> blobs;             ///< Names of its parts.
  std::vector<std::string> files;             ///< Names of its files.
};

/// Why a key was not found.
struct Explanation {
  Digest nearest;                       ///< The stored key that shares most with it.
  std::vector<Difference> differences;  ///< Components that differ; the first is the likely cause.
};

/// Held while one process compiles what others wait for. Releases on destruction.
class Flight {
 public:
  /// Holds `lock`; null: nobody waits.
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

  /// Finds an entry likewise and hands it to `use`; returns whether there was one. One that `use`
  /// throws at is of no use to anybody: it is removed, and counted as a miss.
  ///
  /// Throws `Error` with `kCorrupt` for such an entry, in `Mode::kStrict` only.
  bool find_and_use(const Key& key,
                    const GuardPredicate& holds,
                    const std::function<void(const Entry&)>& use);

  /// Stores `entry`, and copies of its files, under `key`, in addition to entries with other
  /// guards.
  ///
  /// Returns whether it was stored. Throws `Error` with `kIo` in `Mode::kStrict` only.
  bool put(const Key& key, const Entry& entry);

  /// What `obtain` returns.
  struct Obtained {
    Entry entry;       ///< What was found or made.
    bool hit = false;  ///< It was not made by this call.
  };
  /// Finds the entry, or calls `make` and stores what it returns. Of all processes and threads that
  /// ask for one key at a time, one makes it and the others wait for it.
  Obtained obtain(const Key& key, const GuardPredicate& holds, const std::function<Entry()>& make);

  /// Small parts that need no guards, such as kernel objects, by the digest of what made them.
  [[nodiscard]] std::optional<MappedBlob> find_object(const Digest& key);
  /// Stores such a part. Returns whether it was stored.
  bool put_object(const Digest& key, std::span<const std::byte> object);

  /// The digest of a file's content. A large file that is where it was, with the size and the times
  /// that it had, is not read again. Throws `Error` with `kIo` if it cannot be read.
  [[nodiscard]] Digest digest_of_file(const std::filesystem::path& path);

  /// Notes that the file `path`, as it is now, is what `key` leads to.
  void note_product(const std::filesystem::path& path, const Key& key);
  /// Whether that was noted of it, and it has not changed since.
  [[nodiscard]] bool is_product(const std::filesystem::path& path, const Key& key) const;

  /// Records that a program cannot be cached. Throws `kUnsupported` in `Mode::kStrict`.
  void bypass(std::string_view reason);

  /// Waits until nobody else compiles `key`, at most `timeout`: look again once you hold it.
  [[nodiscard]] Flight begin_flight(
      const Key& key, std::chrono::milliseconds timeout = std::chrono::minutes(10)) const;

  /// Of this object.
  [[nodiscard]] Counters counters() const;
  /// Of the directory, by all that were closed so far.
  [[nodiscard]] Counters totals() const;
  [[nodiscard]] StoreStats stats() const;  ///< What the directory holds now.
  /// Every entry, the most recently used first.
  [[nodiscard]] std::vector<EntrySummary> list() const;

  /// Compares `key` with the nearest other key in the cache; nothing if there is none.
  [[nodiscard]] std::optional<Explanation> explain(const Key& key) const;
  /// The same, but only among the last hundred or so keys that were saved: quick enough for a
  /// compile.
  [[nodiscard]] std::optional<Explanation> explain_quickly(const Key& key) const;
  /// The key of the last cache miss, of whichever process.
  [[nodiscard]] std::optional<Key> last_miss() const;
  /// The key of a stored entry, with its components, or nothing.
  [[nodiscard]] std::optional<Key> stored_key(const Digest& digest) const;

  VerifyReport verify();  ///< Checks every file against its checksum and removes those that fail.
  /// Removes the least recently used until at most `max_bytes` remain; how many bytes went.
  std::uint64_t evict(std::uint64_t max_bytes);
  void clear();  ///< Removes everything that caches put there.

  /// Writes the entries under `keys` (all if empty) to `path`, with their files.
  /// Returns how many. Throws `Error` with `kIo`.
  std::uint64_t export_bundle(const std::filesystem::path& path,
                              std::span<const Digest> keys) const;
  /// Adds what a bundle holds. Returns how many entries. Throws `Error`: `kIo`, or `kCorrupt` if
  /// the bundle is damaged or not signed with our secret; nothing of it is then taken.
  std::uint64_t import_bundle(const std::filesystem::path& path);

  /// Whether there is a usable directory beneath.
  [[nodiscard]] bool enabled() const noexcept;
  [[nodiscard]] const std::filesystem::path& directory() const noexcept;  ///< Where it lies.
  /// The store beneath, for blobs that need no guards. Null if the cache is off.
  [[nodiscard]] ArtifactStore* store() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln::autograd_cache
