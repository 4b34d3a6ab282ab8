#include "kiln/autograd_cache/identity.hpp"

#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace kiln::autograd_cache {

namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> identities;
};

// Never destroyed: operators may be registered and used while the program begins and ends.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

}  // namespace

void declare_identity(std::string name, std::string identity) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.identities.insert_or_assign(std::move(name), std::move(identity));
}

std::optional<std::string> identity_of(std::string_view name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  auto found = all.identities.find(name);
  if (found == all.identities.end()) {
    found = all.identities.find(name.substr(0, name.find("::")));
  }
  return found == all.identities.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace kiln::autograd_cache
