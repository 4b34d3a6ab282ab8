// What a cache holds and why it missed: the rest of `Cache`.

#include <algorithm>
#include <map>
#include <utility>

#include "cache_state.hpp"
#include "layout.hpp"
#include "totals.hpp"

namespace kiln::autograd_cache {
namespace fs = std::filesystem;

namespace {

template <class Map>
std::vector<std::string> names_of(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) {
    names.push_back(name);
  }
  return names;
}

std::uint64_t bytes_of_files(const fs::path& root, const Record& record) {
  std::uint64_t sum = 0;
  for (const auto& [name, reference] : record.files) {
    std::error_code failure;
    const std::uint64_t bytes = fs::file_size(path_of(root, reference), failure);
    sum += failure ? 0 : bytes;
  }
  return sum;
}

}  // namespace

Counters Cache::counters() const {
  return state_->counted();
}

Counters Cache::totals() const {
  return enabled() ? read_totals(state_->store->root()) : Counters{};
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
                           .file_bytes = bytes_of_files(state_->store->root(), *record),
                           .last_used = variant.last_used,
                           .guards = record->guards,
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
      std::vector<Difference> found = differences(key.components(), record->components);
      const bool nearer =
          !best || found.size() < best->differences.size() ||
          (found.size() == best->differences.size() && variant.last_used > best_used);
      if (nearer) {
        best = Explanation{.nearest = variant.key, .differences = std::move(found)};
        best_used = variant.last_used;
      }
    });
  }
  return best;
}

std::optional<Explanation> Cache::explain_quickly(const Key& key) const {
  std::optional<KeyComponents> nearest;
  std::vector<Difference> fewest;
  if (enabled()) {
    for (KeyComponents& saved : state_->journal.recently_saved()) {
      std::vector<Difference> found = differences(key.components(), saved);
      // Of equals the later: it is what the user did just before.
      if (!found.empty() && (!nearest || found.size() <= fewest.size())) {
        fewest = std::move(found);
        nearest = std::move(saved);
      }
    }
  }
  if (!nearest) {
    return std::nullopt;
  }
  return Explanation{.nearest = Key(std::move(*nearest)).digest(),
                     .differences = std::move(fewest)};
}

std::optional<Key> Cache::last_miss() const {
  std::optional<KeyComponents> components;
  if (enabled()) {
    components = state_->journal.last_miss();
  }
  return components ? std::optional<Key>(std::move(*components)) : std::nullopt;
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
  state_->memory.clear();
  return enabled() ? state_->store->evict(max_bytes) : 0;
}

void Cache::clear() {
  state_->memory.clear();
  if (state_->saves()) {
    state_->store->clear();
    state_->journal.clear();
    clear_totals(state_->store->root());
  }
}

}  // namespace kiln::autograd_cache
