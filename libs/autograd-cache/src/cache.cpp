#include "kiln/autograd_cache/cache.hpp"

#include <unistd.h>

#include <exception>
#include <new>
#include <utility>

#include "cache_state.hpp"
#include "file_lock.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/log.hpp"

namespace kiln::autograd_cache {
namespace fs = std::filesystem;

Cache::Cache(const CacheOptions& options) : state_(std::make_unique<State>(options)) {}
Cache::~Cache() = default;

std::optional<Entry> Cache::find(const Key& key, const GuardPredicate& holds) {
  if (!enabled()) {
    return std::nullopt;
  }
  State::Lookup lookup = state_->look_up(key, holds);
  state_->account_for(key, lookup);
  return std::move(lookup.entry);
}

void Cache::State::drop(const Key& key, const Entry& entry) {
  memory.drop(key.digest(), entry.guards);
  static_cast<void>(store->find_variant(key.digest(), [&](std::span<const std::byte> bytes) {
    const std::optional<Record> record = parse_or_nothing(bytes);
    const bool is_same = record && record->guards == entry.guards && record->blobs == entry.blobs;
    return is_same ? Verdict::kDrop : Verdict::kSkip;
  }));
}

bool Cache::find_and_use(const Key& key,
                         const GuardPredicate& holds,
                         const std::function<void(const Entry&)>& use) {
  if (!enabled()) {
    return false;
  }
  State::Lookup lookup = state_->look_up(key, holds);
  if (lookup.entry) {
    try {
      use(*lookup.entry);
    } catch (const std::bad_alloc&) {
      throw;  // That says nothing about the entry.
    } catch (const std::exception& failure) {
      KILN_LOG(kInfo, "autograd-cache", "an entry cannot be used: " << failure.what());
      lookup.damage = failure.what();
      state_->drop(key, *lookup.entry);
      lookup.entry.reset();
    }
  }
  state_->account_for(key, lookup);
  return lookup.entry.has_value();
}

bool Cache::put(const Key& key, const Entry& entry) {
  return state_->save(key, entry);
}

Cache::Obtained Cache::obtain(const Key& key,
                              const GuardPredicate& holds,
                              const std::function<Entry()>& make) {
  if (!enabled()) {
    return {.entry = make(), .hit = false};
  }
  State::Lookup lookup = state_->look_up(key, holds);
  std::optional<Flight> flight;
  if (!lookup.entry && state_->saves()) {
    flight = begin_flight(key);
    lookup = state_->look_up(key, holds);  // Whoever we waited for has saved it.
  }
  state_->account_for(key, lookup);
  if (lookup.entry) {
    return {.entry = std::move(*lookup.entry), .hit = true};
  }
  Entry made = make();
  state_->save(key, made, &made.files);
  return {.entry = std::move(made), .hit = false};
}

std::optional<MappedBlob> Cache::find_object(const Digest& key) {
  if (!enabled()) {
    return std::nullopt;
  }
  std::optional<MappedBlob> object = state_->store->find(key);
  if (!object && state_->remote.usable()) {
    object = state_->remote.load(ValueKind::kObject, key);
    if (object) {
      state_->store->put(key, object->bytes());
    }
  }
  return object;
}

bool Cache::put_object(const Digest& key, std::span<const std::byte> object) {
  if (!state_->saves()) {
    return false;
  }
  state_->remote.save(ValueKind::kObject, key, object);
  return state_->store->put(key, object);
}

void Cache::bypass(std::string_view reason) {
  {
    const std::lock_guard lock(state_->mutex);
    ++state_->counters.bypass;
    ++state_->counters.bypass_reasons[std::string(reason)];
  }
  KILN_LOG(kInfo, "autograd-cache", "bypassed: " << reason);
  if (state_->strict()) {
    throw Error(ErrorCode::kUnsupported, "the cache was bypassed: " + std::string(reason));
  }
}

Flight Cache::begin_flight(const Key& key, std::chrono::milliseconds timeout) const {
  if (!state_->saves()) {
    return Flight(nullptr);
  }
  const fs::path path = directory() / "flights" / key.digest().hex();
  try {
    create_directories(path.parent_path(), state_->store->writers());
  } catch (const Error&) {
    return Flight(nullptr);
  }
  std::optional<FileLock> lock = FileLock::acquire(path, timeout);
  if (!lock) {
    return Flight(nullptr);
  }
  // The name goes first, while nobody else can hold it. A child that was forked meanwhile holds
  // nothing.
  const auto let_go = [path, holder = ::getpid()](FileLock* held) {
    if (holder == ::getpid()) {
      ::unlink(path.c_str());
    }
    delete held;
  };
  return Flight(std::shared_ptr<FileLock>(new FileLock(std::move(*lock)), let_go));
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
