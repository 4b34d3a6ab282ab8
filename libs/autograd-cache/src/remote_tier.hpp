// The remote store as the cache uses it: everything signed and checked, and after the first fault
// nothing more is asked of it.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kiln/autograd_cache/mapped_blob.hpp"
#include "kiln/autograd_cache/remote_store.hpp"
#include "kiln/base/digest.hpp"
#include "sealed_value.hpp"

namespace kiln::autograd_cache {

/// Never throws because of the remote store. Callable from many threads.
class RemoteTier {
 public:
  /// `store` may be null: then nothing is ever found.
  RemoteTier(std::shared_ptr<RemoteStore> store, std::string secret);

  /// The variants under `key` that are intact.
  [[nodiscard]] std::vector<MappedBlob> variants(const Digest& key);
  void put_variant(const Digest& key, std::span<const std::byte> variant);

  /// The file or the object under `key`, or nothing.
  [[nodiscard]] std::optional<MappedBlob> load(ValueKind kind, const Digest& key);
  void save(ValueKind kind, const Digest& key, std::span<const std::byte> bytes);

  /// Whether it is there and has not failed yet.
  [[nodiscard]] bool usable() const;

  [[nodiscard]] std::uint64_t faults() const;
  [[nodiscard]] std::uint64_t refused() const;

 private:
  [[nodiscard]] std::string name_of(ValueKind kind, const Digest& key) const;
  void attempt(const std::function<void(RemoteStore&)>& work);
  [[nodiscard]] std::optional<MappedBlob> open(ValueKind kind,
                                               const Digest& key,
                                               const std::string& sealed);

  std::string secret_;
  std::string space_;
  mutable std::mutex mutex_;  // Guards what follows.
  std::shared_ptr<RemoteStore> store_;
  std::uint64_t faults_ = 0;
  std::uint64_t refused_ = 0;
  std::set<std::string> refused_names_;
};

}  // namespace kiln::autograd_cache
