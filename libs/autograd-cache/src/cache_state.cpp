#include "cache_state.hpp"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "kiln/autograd_cache/redis_store.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/log.hpp"
#include "layout.hpp"
#include "totals.hpp"

namespace kiln::autograd_cache {
namespace fs = std::filesystem;

namespace {

constexpr const char* kComponent = "autograd-cache";

// A remote entry's files are written to the disk before they are used, so a cache that may not
// write has no remote tier.
std::shared_ptr<RemoteStore> remote_for(const CacheOptions& options) {
  if (options.mode == Mode::kOff || options.mode == Mode::kRead) {
    return nullptr;
  }
  if (options.remote_store || options.remote.empty()) {
    return options.remote_store;
  }
  try {
    return open_remote(options.remote);
  } catch (const Error& failure) {
    if (options.mode == Mode::kStrict) {
      throw;
    }
    KILN_LOG(kWarning, kComponent, "there is no remote cache: " << failure.what());
    return nullptr;
  }
}

bool is_there(const std::pair<const std::string, fs::path>& file) {
  std::error_code failure;
  return fs::exists(file.second, failure);
}

}  // namespace

std::optional<Record> parse_or_nothing(std::span<const std::byte> bytes) {
  try {
    return parse_record(bytes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

Cache::State::State(const CacheOptions& options)
    : directory(options.directory),
      mode(options.mode),
      secret(options.secret),
      journal(options.directory),
      memory(options.memory_bytes),
      remote(remote_for(options), options.secret) {
  // OpenSSL registers its clean-up with atexit at its first use. With the first use here, a cache
  // that lives until the program ends is destroyed before that clean-up and can still compute
  // digests.
  static_cast<void>(digest(""));
  if (mode == Mode::kOff) {
    return;
  }
  try {
    store.emplace(directory,
                  StoreOptions{.max_bytes = options.max_bytes,
                               .read_only = mode == Mode::kRead,
                               .allow_shared = options.allow_shared,
                               .durability = options.durability});
  } catch (const Error& failure) {
    if (strict()) {
      throw;
    }
    KILN_LOG(kWarning, kComponent, "caching is disabled: " << failure.what());
  }
}

Cache::State::~State() {
  const Counters sum = counted();
  const bool worth_it = sum.hit + sum.miss + sum.guard_miss + sum.bypass + sum.saved + sum.failed +
                            sum.corrupt + sum.evicted + sum.remote_fault + sum.remote_refused >
                        0;
  if (saves() && store->writable() && worth_it) {
    add_to_totals(store->root(), sum);
  }
}

void Cache::State::count(std::uint64_t Counters::* counter) {
  const std::lock_guard lock(mutex);
  ++(counters.*counter);
}

Counters Cache::State::counted() const {
  const std::lock_guard lock(mutex);
  Counters sum = counters;
  if (store) {
    const StoreCounters of_store = store->counters();
    sum.corrupt += of_store.corrupt;
    sum.evicted += of_store.evicted;
  }
  sum.remote_fault = remote.faults();
  sum.remote_refused = remote.refused();
  return sum;
}

Cache::State::Lookup Cache::State::look_up(const Key& key, const GuardPredicate& holds) {
  Lookup lookup;
  const auto accepts = [&](const std::string& guards) { return guards_hold(holds, guards); };
  lookup.entry = memory.find(key.digest(), accepts);
  if (lookup.entry) {
    lookup.tier = &Counters::memory_hit;
    return lookup;
  }
  look_on_disk(key, holds, lookup);
  if (!lookup.entry && remote.usable()) {
    look_in_remote(key, holds, lookup);
  }
  if (lookup.entry) {
    memory.keep(key.digest(), *lookup.entry);
  }
  return lookup;
}

void Cache::State::look_on_disk(const Key& key, const GuardPredicate& holds, Lookup& lookup) {
  Entry entry;
  const auto found = store->find_variant(key.digest(), [&](std::span<const std::byte> bytes) {
    switch (examine(key, bytes, holds, entry)) {
      case Outcome::kHit: return Verdict::kTake;
      case Outcome::kGuardMiss: lookup.guard_miss = true; return Verdict::kSkip;
      case Outcome::kFilesGone: lookup.damage = "its files are gone"; return Verdict::kDrop;
      case Outcome::kDamaged: count(&Counters::corrupt); return Verdict::kDrop;
    }
    return Verdict::kSkip;
  });
  if (found) {
    lookup.entry = std::move(entry);
  }
}

// A variant whose guards hold is copied to the disk, and then found there like any other.
void Cache::State::look_in_remote(const Key& key, const GuardPredicate& holds, Lookup& lookup) {
  for (const MappedBlob& variant : remote.variants(key.digest())) {
    const std::optional<Record> record = parse_or_nothing(variant.bytes());
    if (!record || Key(record->components) != key) {
      count(&Counters::corrupt);
      continue;
    }
    if (!guards_hold(holds, record->guards)) {
      lookup.guard_miss = true;
      continue;
    }
    if (fetch_files(*record) && store->put_variant(key.digest(), variant.bytes())) {
      look_on_disk(key, holds, lookup);
      lookup.tier = &Counters::remote_hit;
      return;
    }
  }
}

bool Cache::State::fetch_files(const Record& record) {
  for (const auto& [name, reference] : record.files) {
    if (store->find_file(reference)) {
      continue;
    }
    const std::optional<MappedBlob> bytes = remote.load(ValueKind::kFile, reference.content);
    if (!bytes || !store->put_file(reference, bytes->bytes())) {
      return false;
    }
  }
  return true;
}

void Cache::State::account_for(const Key& key, const Lookup& lookup) {
  if (lookup.entry) {
    count(&Counters::hit);
    if (lookup.tier != nullptr) {
      count(lookup.tier);
    }
    return;
  }
  count(lookup.guard_miss && lookup.damage.empty() ? &Counters::guard_miss : &Counters::miss);
  if (mode != Mode::kRead && store->writable()) {
    journal.remember_miss(key);
  }
  if (!lookup.damage.empty() && strict()) {
    throw Error(ErrorCode::kCorrupt,
                "the cache entry " + key.digest().hex() + " cannot be used: " + lookup.damage);
  }
}

Cache::State::Outcome Cache::State::examine(const Key& key,
                                            std::span<const std::byte> bytes,
                                            const GuardPredicate& holds,
                                            Entry& entry) {
  std::optional<Record> record = parse_or_nothing(bytes);
  if (!record || Key(record->components) != key) {
    return Outcome::kDamaged;
  }
  if (!guards_hold(holds, record->guards)) {
    return Outcome::kGuardMiss;
  }
  if (!resolve_files(*record, entry)) {
    return Outcome::kFilesGone;
  }
  entry.guards = std::move(record->guards);
  entry.blobs = std::move(record->blobs);
  return Outcome::kHit;
}

bool Cache::State::guards_hold(const GuardPredicate& holds, const std::string& guards) const {
  try {
    return !holds || holds(guards);
  } catch (const std::exception& failure) {
    if (strict()) {
      throw;
    }
    KILN_LOG(kInfo, kComponent, "guards could not be checked: " << failure.what());
    return false;
  }
}

bool Cache::State::resolve_files(const Record& record, Entry& entry) const {
  entry.files.clear();
  for (const auto& [name, reference] : record.files) {
    std::optional<fs::path> path = store->find_file(reference);
    if (!path) {
      return false;
    }
    entry.files.emplace(name, std::move(*path));
  }
  return true;
}

bool Cache::State::save(const Key& key,
                        const Entry& entry,
                        std::map<std::string, fs::path>* placed) {
  if (!saves()) {
    return false;
  }
  std::map<std::string, fs::path> places;
  const bool stored = store_entry(key, entry, places);
  count(stored ? &Counters::saved : &Counters::failed);
  if (!stored && strict()) {
    throw Error(ErrorCode::kIo, "a cache entry could not be saved in " + directory.string());
  }
  if (stored && placed != nullptr) {
    *placed = std::move(places);
  }
  return stored;
}

bool Cache::State::store_entry(const Key& key,
                               const Entry& entry,
                               std::map<std::string, fs::path>& placed) {
  Record record{
      .components = key.components(), .guards = entry.guards, .blobs = entry.blobs, .files = {}};
  // Files first: an entry must never be visible before the files that it refers to.
  for (const auto& [name, path] : entry.files) {
    const std::optional<FileReference> reference = store->put_file(path);
    if (!reference) {
      KILN_LOG(kInfo, kComponent, path.string() << " could not be cached");
      return false;
    }
    if (remote.usable()) {
      if (const auto bytes = MappedBlob::map(path_of(store->root(), *reference))) {
        remote.save(ValueKind::kFile, reference->content, bytes->bytes());
      }
    }
    record.files.emplace(name, *reference);
    placed.emplace(name, path_of(store->root(), *reference));
  }
  const std::string bytes = serialize(record);
  const std::span<const std::byte> variant = std::as_bytes(std::span(bytes));
  remote.put_variant(key.digest(), variant);
  if (!store->put_variant(key.digest(), variant)) {
    return false;
  }
  if (!store->has_variant(key.digest(), variant) || !std::ranges::all_of(placed, is_there)) {
    // Either it is so large that storing one part evicted another, or another process evicts.
    KILN_LOG(kInfo, kComponent, "an entry was evicted while it was saved: " << key.digest().hex());
    store->drop_variant(key.digest(), variant);
    return false;
  }
  journal.remember_saved(key);
  return true;
}

}  // namespace kiln::autograd_cache
