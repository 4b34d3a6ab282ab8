// CA-19: a fleet of caches, each with its own disk, and one store that they share.

#include "remote_tier.hpp"

#include <filesystem>
#include <map>
#include <string>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

namespace fs = std::filesystem;

// The other machine, in memory.
class MapStore : public RemoteStore {
 public:
  std::optional<std::string> load(const std::string& name) override {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  }
  bool contains(const std::string& name) override { return values.contains(name); }
  void save(const std::string& name, std::string_view bytes) override {
    values[name] = bytes;
    ++saves;
  }
  std::map<std::string, std::string> load_group(const std::string& name) override {
    return groups[name];
  }
  void save_member(const std::string& name,
                   const std::string& member,
                   std::string_view bytes) override {
    groups[name][member] = bytes;
  }
  std::string description() const override { return "map"; }

  std::map<std::string, std::string> values;
  std::map<std::string, std::map<std::string, std::string>> groups;
  int saves = 0;
};

struct Fleet {
  TemporaryDirectory directory;
  std::shared_ptr<MapStore> shared = std::make_shared<MapStore>();

  Fleet() { write_file_atomically(directory.path() / "model.so", noise(10'000)); }

  CacheOptions machine(const std::string& name, const std::string& secret = "") const {
    CacheOptions options = options_for(directory.path() / name);
    options.remote_store = shared;
    options.secret = secret;
    return options;
  }

  Entry entry(const std::string& guards = "") const {
    return {.guards = guards,
            .blobs = {{"metadata", "m"}},
            .files = {{"library", directory.path() / "model.so"}}};
  }
};

TEST_CASE("CA-19 what one machine saved another finds, and keeps",
          "[autograd-cache][remote_tier]") {
  const Fleet fleet;
  Cache(fleet.machine("first")).put(kKey, fleet.entry());

  Cache second(fleet.machine("second"));
  const auto found = second.find(kKey);

  REQUIRE(found.has_value());
  CHECK(found->blobs.at("metadata") == "m");
  CHECK(read_file(found->files.at("library")) == noise(10'000));
  CHECK(found->files.at("library").extension() == ".so");
  CHECK(found->files.at("library").string().starts_with(second.directory().string()));
  CHECK(second.counters().remote_hit == 1);

  fleet.shared->groups.clear();  // From now on it has its own.
  fleet.shared->values.clear();
  CHECK(second.find(kKey).has_value());
  CHECK(second.counters().remote_hit == 1);
  CHECK(second.counters().hit == 2);
}

TEST_CASE("CA-19 CA-14 guards choose among remote entries", "[autograd-cache][remote_tier]") {
  const Fleet fleet;
  Cache first(fleet.machine("first"));
  for (const char* guards : {"4", "8"}) {
    first.put(kKey, fleet.entry(guards));
  }
  CHECK(fleet.shared->saves == 1);  // The same library is sent once.
  Cache second(fleet.machine("second"));
  const auto equals = [](const char* wanted) {
    return [=](std::string_view guards) { return guards == wanted; };
  };
  CHECK(second.find(kKey, equals("8"))->guards == "8");
  CHECK(second.find(kKey, equals("4"))->guards == "4");
  CHECK_FALSE(second.find(kKey, equals("5")).has_value());
  CHECK(second.counters().guard_miss == 1);
}

TEST_CASE("CA-19 objects are shared too", "[autograd-cache][remote_tier]") {
  const Fleet fleet;
  Cache(fleet.machine("first")).put_object(digest("source"), bytes_of("object"));
  Cache second(fleet.machine("second"));
  CHECK(second.find_object(digest("source"))->text() == "object");
  CHECK(second.store()->find(digest("source"))->text() == "object");
}

TEST_CASE("CA-19 with a secret, only what it signed is taken", "[autograd-cache][remote_tier]") {
  const Fleet fleet;
  const std::string theirs = GENERATE("", "another");
  Cache(fleet.machine("stranger", theirs)).put(kKey, fleet.entry());
  const std::string their_name = fleet.shared->groups.begin()->first;

  Cache ours(fleet.machine("ours", "secret"));
  CHECK_FALSE(ours.find(kKey).has_value());
  ours.put(kKey, fleet.entry());
  Cache friends(fleet.machine("friend", "secret"));
  CHECK(friends.find(kKey).has_value());

  // Whoever can write to the store can put a value under our name, but cannot sign it.
  auto& groups = fleet.shared->groups;
  REQUIRE(groups.size() == 2);
  for (auto& [name, group] : groups) {
    group = groups.at(their_name);
  }
  Cache victim(fleet.machine("victim", "secret"));
  CHECK_FALSE(victim.find(kKey).has_value());
  CHECK(victim.counters().remote_refused == 1);
}

TEST_CASE("CA-18 a flipped bit in any byte of a remote value is refused",
          "[autograd-cache][remote_tier]") {
  const Fleet fleet;
  const std::string secret = GENERATE("", "secret");
  Cache(fleet.machine("first", secret)).put(kKey, {.guards = "4"});
  std::string& value = fleet.shared->groups.begin()->second.begin()->second;
  const std::string good = value;
  Cache second(fleet.machine("second", secret));
  for (std::size_t i = 0; i < good.size(); ++i) {
    value[i] = static_cast<char>(value[i] ^ (1 << (i % 8)));
    const auto found = second.find(kKey);
    // Who has no secret does not read the signature.
    const bool is_signature = i >= 12 && i < 48;
    CHECK(found.has_value() == (secret.empty() && is_signature));
    value = good;
    second.clear();
  }
}

TEST_CASE("CA-18 a remote entry whose file is gone or damaged is a miss, and is mended",
          "[autograd-cache][remote_tier]") {
  const Fleet fleet;
  Cache(fleet.machine("first")).put(kKey, fleet.entry());
  if (GENERATE(false, true)) {
    fleet.shared->values.clear();
  } else {
    fleet.shared->values.begin()->second[70] ^= 1;
  }
  Cache second(fleet.machine("second"));
  const auto obtained = second.obtain(kKey, {}, [&] { return fleet.entry(); });
  CHECK_FALSE(obtained.hit);

  Cache third(fleet.machine("third"));
  CHECK(third.find(kKey).has_value());
}

TEST_CASE("CA-18 a remote value under another name is refused", "[autograd-cache][remote_tier]") {
  const Fleet fleet;
  const Key other = KeyBuilder().add("graph", "h").build();
  Cache first(fleet.machine("first"));
  first.put(kKey, {.guards = "4"});
  first.put(other, {.guards = "8"});
  std::swap(fleet.shared->groups.begin()->second, fleet.shared->groups.rbegin()->second);
  Cache second(fleet.machine("second"));
  CHECK_FALSE(second.find(kKey).has_value());
  CHECK_FALSE(second.find(other).has_value());
}

TEST_CASE("CA-17 a cache that may not write has no remote tier", "[autograd-cache][remote_tier]") {
  const Fleet fleet;
  Cache(fleet.machine("first")).put(kKey, fleet.entry());
  CacheOptions options = fleet.machine("second");
  fs::create_directory(options.directory);
  options.mode = Mode::kRead;
  CHECK_FALSE(Cache(options).find(kKey).has_value());
  CHECK(files_below(options.directory).empty());
}

}  // namespace
}  // namespace kiln::autograd_cache
