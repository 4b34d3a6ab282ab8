// Where a fleet shares what one of its machines compiled.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace kiln::autograd_cache {

/// Bytes by name on another machine. `RedisStore` is one; a program may bring its own.
///
/// The cache signs, checks and packs what it sends: a store only moves bytes, and may lose or mix
/// them up. Every member throws `Error` where the store cannot be reached, and must do so within a
/// time that the store bounds. Called by one thread at a time.
class RemoteStore {
 public:
  virtual ~RemoteStore() = default;

  /// The value under `name`, or nothing.
  [[nodiscard]] virtual std::optional<std::string> load(const std::string& name) = 0;
  /// Whether there is a value under `name`.
  [[nodiscard]] virtual bool contains(const std::string& name) = 0;
  /// Puts `bytes` under `name`.
  virtual void save(const std::string& name, std::string_view bytes) = 0;

  /// The values of the group `name`, by member.
  [[nodiscard]] virtual std::map<std::string, std::string> load_group(const std::string& name) = 0;
  /// Adds `bytes` to the group `name` as `member`, replacing what has that name.
  virtual void save_member(const std::string& name,
                           const std::string& member,
                           std::string_view bytes) = 0;

  /// What a message calls it: without a password.
  [[nodiscard]] virtual std::string description() const = 0;
};

}  // namespace kiln::autograd_cache
