#include "kiln/autograd_cache/cache.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <span>
#include <system_error>
#include <utility>

#include "file_lock.hpp"
#include "kiln/autograd_cache/record.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/log.hpp"

namespace kiln::autograd_cache {
namespace fs = std::filesystem;

namespace {

constexpr const char* kComponent = "autograd-cache";

template <class Map>
std::vector<std::string> names_of(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) {
    names.push_back(name);
  }
  return names;
}

std::optional<Record> parse_or_nothing(std::span<const std::byte> bytes) {
  try {
    return parse_record(bytes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

struct Cache::State {
  explicit State(const CacheOptions& options) : directory(options.directory), mode(options.mode) {
    if (mode == Mode::kOff) {
      return;
    }
    try {
      store.emplace(directory,
                    StoreOptions{.max_bytes = options.max_bytes,
                                 .read_only = mode == Mode::kRead,
                                 .allow_shared = options.allow_shared});
    } catch (const Error& failure) {
      if (strict()) {
        throw;
      }
      KILN_LOG(kWarning, kComponent, "nothing is cached: " << failure.what());
    }
  }

  [[nodiscard]] bool strict() const { return mode == Mode::kStrict; }

  // What became of one variant on the way to a hit.
  enum class Outcome { kHit, kGuardMiss, kDamaged, kFilesGone };
  Outcome examine(const Key& key,
                  std::span<const std::byte> bytes,
                  const GuardPredicate& holds,
                  Entry& entry);
  bool guards_hold(const GuardPredicate& holds, const std::string& guards) const;
  bool resolve_files(const Record& record, Entry& entry) const;
  bool store_entry(const Key& key, const Entry& entry);

  void count(std::uint64_t Counters::* counter) {
    const std::lock_guard lock(mutex);
    ++(counters.*counter);
  }

  fs::path directory;
  Mode mode;
  std::optional<ArtifactStore> store;
  mutable std::mutex mutex;
  Counters counters;  // Guarded by `mutex`.
};

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
  for (const auto& [name, content] : record.files) {
    std::optional<fs::path> path = store->find_file(content);
    if (!path || path->stem() != content.hex()) {
      return false;
    }
    entry.files.emplace(name, std::move(*path));
  }
  return true;
}

bool Cache::State::store_entry(const Key& key, const Entry& entry) {
  Record record{
      .components = key.components(), .guards = entry.guards, .blobs = entry.blobs, .files = {}};
  // Files first: an entry must never be there before what it names.
  for (const auto& [name, path] : entry.files) {
    const std::optional<Digest> content = store->put_file(path);
    if (!content) {
      KILN_LOG(kInfo, kComponent, path.string() << " could not be cached");
      return false;
    }
    record.files.emplace(name, *content);
  }
  const std::string bytes = serialize(record);
  return store->put_variant(key.digest(), std::as_bytes(std::span(bytes)));
}

Cache::Cache(const CacheOptions& options) : state_(std::make_unique<State>(options)) {}
Cache::~Cache() = default;

std::optional<Entry> Cache::find(const Key& key, const GuardPredicate& holds) {
  if (!enabled()) {
    return std::nullopt;
  }
  using Outcome = State::Outcome;
  Entry entry;
  bool guard_miss = false;
  bool files_gone = false;
  const auto found =
      state_->store->find_variant(key.digest(), [&](std::span<const std::byte> bytes) {
        switch (state_->examine(key, bytes, holds, entry)) {
          case Outcome::kHit: return Verdict::kTake;
          case Outcome::kGuardMiss: guard_miss = true; return Verdict::kSkip;
          case Outcome::kFilesGone: files_gone = true; return Verdict::kDrop;
          case Outcome::kDamaged: state_->count(&Counters::corrupt); return Verdict::kDrop;
        }
        return Verdict::kSkip;
      });

  if (found) {
    state_->count(&Counters::hit);
    return entry;
  }
  state_->count(guard_miss && !files_gone ? &Counters::guard_miss : &Counters::miss);
  if (files_gone && state_->strict()) {
    throw Error(ErrorCode::kCorrupt, "a cache entry's files are gone: " + key.digest().hex());
  }
  return std::nullopt;
}

bool Cache::put(const Key& key, const Entry& entry) {
  if (!enabled() || state_->mode == Mode::kRead) {
    return false;
  }
  const bool stored = state_->store_entry(key, entry);
  state_->count(stored ? &Counters::saved : &Counters::failed);
  if (!stored && state_->strict()) {
    throw Error(ErrorCode::kIo, "a cache entry could not be saved in " + directory().string());
  }
  return stored;
}

void Cache::bypass(std::string_view reason) {
  {
    const std::lock_guard lock(state_->mutex);
    ++state_->counters.bypass;
    ++state_->counters.bypass_reasons[std::string(reason)];
  }
  KILN_LOG(kInfo, kComponent, "bypassed: " << reason);
  if (state_->strict()) {
    throw Error(ErrorCode::kUnsupported, "the cache was bypassed: " + std::string(reason));
  }
}

Flight Cache::begin_flight(const Key& key, std::chrono::milliseconds timeout) const {
  if (!enabled() || state_->mode == Mode::kRead) {
    return Flight(nullptr);
  }
  const fs::path path = directory() / "flights" / key.digest().hex();
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  std::optional<FileLock> lock = FileLock::acquire(path, timeout);
  if (!lock) {
    return Flight(nullptr);
  }
  // The name goes first, while nobody else can hold it.
  return Flight(std::shared_ptr<FileLock>(new FileLock(std::move(*lock)), [path](FileLock* held) {
    ::unlink(path.c_str());
    delete held;
  }));
}

Counters Cache::counters() const {
  const std::lock_guard lock(state_->mutex);
  Counters counters = state_->counters;
  if (state_->store) {
    const StoreCounters store = state_->store->counters();
    counters.corrupt += store.corrupt;
    counters.evicted = store.evicted;
  }
  return counters;
}

StoreStats Cache::stats() const {
  return enabled() ? state_->store->stats() : StoreStats{};
}

std::vector<EntrySummary> Cache::list() const {
  std::vector<EntrySummary> entries;
  if (enabled()) {
    state_->store->visit_variants([&](const ArtifactStore::Variant& variant) {
      if (const auto record = parse_or_nothing(variant.content)) {
        entries.push_back({.key = variant.key,
                           .bytes_on_disk = variant.bytes_on_disk,
                           .last_used = variant.last_used,
                           .blobs = names_of(record->blobs),
                           .files = names_of(record->files)});
      }
    });
  }
  std::sort(entries.begin(), entries.end(), [](const EntrySummary& a, const EntrySummary& b) {
    return a.last_used > b.last_used;
  });
  return entries;
}

std::optional<Explanation> Cache::explain(const Key& key) const {
  std::optional<Explanation> best;
  fs::file_time_type best_used;
  if (enabled()) {
    state_->store->visit_variants([&](const ArtifactStore::Variant& variant) {
      const auto record = parse_or_nothing(variant.content);
      if (!record || variant.key == key.digest()) {
        return;
      }
      std::vector<std::string> names = differences(key, Key(record->components));
      const bool nearer =
          !best || names.size() < best->differences.size() ||
          (names.size() == best->differences.size() && variant.last_used > best_used);
      if (nearer) {
        best = Explanation{.nearest = variant.key, .differences = std::move(names)};
        best_used = variant.last_used;
      }
    });
  }
  return best;
}

std::optional<Key> Cache::stored_key(const Digest& digest) const {
  std::optional<Key> key;
  if (enabled()) {
    const auto found = state_->store->find_variant(digest, [&](std::span<const std::byte> bytes) {
      if (const auto record = parse_or_nothing(bytes)) {
        key.emplace(record->components);
        return Verdict::kTake;
      }
      return Verdict::kSkip;
    });
    static_cast<void>(found);
  }
  return key;
}

VerifyReport Cache::verify() {
  return enabled() ? state_->store->verify() : VerifyReport{};
}

std::uint64_t Cache::evict(std::uint64_t max_bytes) {
  return enabled() ? state_->store->evict(max_bytes) : 0;
}

void Cache::clear() {
  if (enabled()) {
    state_->store->clear();
  }
}

bool Cache::enabled() const noexcept {
  return state_->store.has_value();
}

const fs::path& Cache::directory() const noexcept {
  return state_->directory;
}

ArtifactStore* Cache::store() noexcept {
  return enabled() ? &*state_->store : nullptr;
}

}  // namespace kiln::autograd_cache
