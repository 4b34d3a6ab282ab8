// What a `Cache` is made of: three tiers, a journal, counters.

#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "journal.hpp"
#include "kiln/autograd_cache/artifact_store.hpp"
#include "kiln/autograd_cache/cache.hpp"
#include "kiln/autograd_cache/record.hpp"
#include "memory_tier.hpp"
#include "remote_tier.hpp"

namespace kiln::autograd_cache {

/// The record in `bytes`, or nothing if it is none.
[[nodiscard]] std::optional<Record> parse_or_nothing(std::span<const std::byte> bytes);

struct Cache::State {
  explicit State(const CacheOptions& options);
  ~State();

  /// What became of a key on its way through the tiers.
  struct Lookup {
    std::optional<Entry> entry;
    std::uint64_t Counters::* tier = nullptr;  // Beside `hit`, if it was not the disk.
    bool guard_miss = false;
    std::string damage = {};  // Why an entry that was there cannot be used.
  };
  Lookup look_up(const Key& key, const GuardPredicate& holds);
  /// Counts what `look_up` found; throws in strict mode what is worth it.
  void account_for(const Key& key, const Lookup& lookup);

  /// Stores and counts; throws in strict mode. If `placed` is given, it gets the files' places in
  /// the cache.
  bool save(const Key& key,
            const Entry& entry,
            std::map<std::string, std::filesystem::path>* placed = nullptr);

  /// Removes an entry that was found and cannot be used.
  void drop(const Key& key, const Entry& entry);

  [[nodiscard]] bool strict() const { return mode == Mode::kStrict; }
  [[nodiscard]] bool saves() const { return store && mode != Mode::kRead; }
  void count(std::uint64_t Counters::* counter);
  [[nodiscard]] Counters counted() const;

  std::filesystem::path directory;
  Mode mode;
  std::string secret;
  std::optional<ArtifactStore> store;
  Journal journal;
  MemoryTier memory;
  RemoteTier remote;
  mutable std::mutex mutex;
  Counters counters;  // Guarded by `mutex`.

 private:
  enum class Outcome { kHit, kGuardMiss, kDamaged, kFilesGone };
  Outcome examine(const Key& key,
                  std::span<const std::byte> bytes,
                  const GuardPredicate& holds,
                  Entry& entry);
  bool store_entry(const Key& key,
                   const Entry& entry,
                   std::map<std::string, std::filesystem::path>& placed);
  void look_on_disk(const Key& key, const GuardPredicate& holds, Lookup& lookup);
  void look_in_remote(const Key& key, const GuardPredicate& holds, Lookup& lookup);
  bool fetch_files(const Record& record);
  bool resolve_files(const Record& record, Entry& entry) const;
  bool guards_hold(const GuardPredicate& holds, const std::string& guards) const;
};

}  // namespace kiln::autograd_cache
