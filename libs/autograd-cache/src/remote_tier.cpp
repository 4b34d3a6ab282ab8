#include "remote_tier.hpp"

#include <exception>
#include <map>
#include <utility>

#include "kiln/base/log.hpp"
#include "seal.hpp"

namespace kiln::autograd_cache {

namespace {

// Values that are signed with different secrets live side by side: nobody overwrites what is good
// for others, or finds a name taken by what is no good.
std::string space_of(const std::string& secret) {
  constexpr std::size_t kEnough = 8;
  return secret.empty() ? "open:" : authenticate(secret, "space").hex().substr(0, kEnough) + ":";
}

}  // namespace

RemoteTier::RemoteTier(std::shared_ptr<RemoteStore> store, std::string secret)
    : secret_(std::move(secret)), space_(space_of(secret_)), store_(std::move(store)) {}

std::vector<MappedBlob> RemoteTier::variants(const Digest& key) {
  std::map<std::string, std::string> group;
  attempt([&](RemoteStore& store) { group = store.load_group(name_of(ValueKind::kVariant, key)); });
  std::vector<MappedBlob> found;
  for (const auto& [member, sealed] : group) {
    if (std::optional<MappedBlob> variant = open(ValueKind::kVariant, key, sealed)) {
      found.push_back(std::move(*variant));
    }
  }
  return found;
}

void RemoteTier::put_variant(const Digest& key, std::span<const std::byte> variant) {
  attempt([&](RemoteStore& store) {
    store.save_member(name_of(ValueKind::kVariant, key),
                      digest(variant).hex(),
                      seal_value(ValueKind::kVariant, key, variant, secret_));
  });
}

bool RemoteTier::usable() const {
  const std::lock_guard lock(mutex_);
  return store_ != nullptr;
}

std::uint64_t RemoteTier::faults() const {
  const std::lock_guard lock(mutex_);
  return faults_;
}

std::uint64_t RemoteTier::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

void RemoteTier::attempt(const std::function<void(RemoteStore&)>& work) {
  const std::lock_guard lock(mutex_);
  if (!store_) {
    return;
  }
  try {
    work(*store_);
  } catch (const std::exception& failure) {
    ++faults_;
    KILN_LOG(kWarning,
             "autograd-cache",
             "the remote cache " << store_->description()
                                 << " is disabled for this process: " << failure.what());
    store_.reset();
  }
}

std::string RemoteTier::name_of(ValueKind kind, const Digest& key) const {
  return space_ + value_name(kind, key);
}

std::optional<MappedBlob> RemoteTier::open(ValueKind kind,
                                           const Digest& key,
                                           const std::string& sealed) {
  std::optional<MappedBlob> value = open_value(kind, key, sealed, secret_);
  if (!value) {
    const std::string name = name_of(kind, key);
    KILN_LOG(kInfo, "autograd-cache", "the remote value " << name << " is refused");
    const std::lock_guard lock(mutex_);
    ++refused_;
    refused_names_.insert(name);
  }
  return value;
}

std::optional<MappedBlob> RemoteTier::load(ValueKind kind, const Digest& key) {
  std::optional<std::string> sealed;
  attempt([&](RemoteStore& store) { sealed = store.load(name_of(kind, key)); });
  return sealed ? open(kind, key, *sealed) : std::nullopt;
}

void RemoteTier::save(ValueKind kind, const Digest& key, std::span<const std::byte> bytes) {
  // Content is sent once, and again where what is there was no good.
  attempt([&](RemoteStore& store) {
    const std::string name = name_of(kind, key);
    if (refused_names_.contains(name) || !store.contains(name)) {
      store.save(name, seal_value(kind, key, bytes, secret_));
      refused_names_.erase(name);
    }
  });
}

}  // namespace kiln::autograd_cache
