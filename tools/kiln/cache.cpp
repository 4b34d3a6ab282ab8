// kiln cache: the disk cache.

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/error.hpp"

namespace kiln::tool {
namespace {

using autograd_cache::Cache;

int stats(bool json) {
  const Cache cache;
  const autograd_cache::StoreStats stats = cache.stats();
  if (json) {
    std::cout << nlohmann::json{{"directory", cache.directory().string()},
                                {"bytes", stats.bytes},
                                {"blobs", stats.blobs},
                                {"files", stats.files},
                                {"entries", stats.variants}}
                     .dump(2)
              << "\n";
  } else {
    std::cout << cache.directory().string() << ": " << stats.variants << " entries, " << stats.files
              << " libraries, " << stats.blobs << " objects, "
              << describe_bytes(static_cast<double>(stats.bytes)) << "\n";
  }
  return 0;
}

int list(bool json) {
  const Cache cache;
  nlohmann::json rows = nlohmann::json::array();
  for (const autograd_cache::EntrySummary& entry : cache.list()) {
    if (json) {
      rows.push_back(
          {{"key", entry.key.hex()}, {"bytes", entry.bytes_on_disk}, {"files", entry.files}});
    } else {
      std::cout << entry.key.hex() << "  "
                << describe_bytes(static_cast<double>(entry.bytes_on_disk)) << "\n";
    }
  }
  if (json) {
    std::cout << rows.dump(2) << "\n";
  }
  return 0;
}

int explain(const std::string& text) {
  const Cache cache;
  const auto digest = Digest::parse(text);
  const auto key = digest ? cache.stored_key(*digest) : std::nullopt;
  if (!key) {
    throw Error(ErrorCode::kInvalidArgument,
                "the cache has no entry '" + text + "'; `kiln cache list` shows them");
  }
  for (const autograd_cache::KeyComponent& component : key->components()) {
    std::cout << component.name << "  " << component.digest.hex().substr(0, 16) << "\n";
  }
  if (const auto nearest = cache.explain(*key)) {
    std::cout << "nearest other entry " << nearest->nearest.hex().substr(0, 16) << " differs in";
    for (const autograd_cache::Difference& difference : nearest->differences) {
      std::cout << " " << difference.name;
    }
    std::cout << "\n";
  }
  return 0;
}

int verify() {
  const autograd_cache::VerifyReport report = Cache().verify();
  std::cout << report.checked << " files checked, " << report.removed << " damaged ones removed\n";
  return report.removed == 0 ? 0 : 1;
}

}  // namespace

void add_cache(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("cache", "The disk cache ($KILN_CACHE_DIR)");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, std::function<int()> action) {
    CLI::App* part = command->add_subcommand(name, help);
    part->add_flag("--json", session.json, "Print JSON");
    part->callback([action, &session] { session.action = action; });
    return part;
  };
  add("stats", "How much is in it", [&session] { return stats(session.json); });
  add("list", "Every entry", [&session] { return list(session.json); });
  add("verify", "Check every file, remove damaged ones", [] { return verify(); });
  add("clear", "Remove everything", [] {
    Cache().clear();
    return 0;
  });
  const auto key = std::make_shared<std::string>();
  add("explain",
      "What an entry's key is made of, and what sets it apart",
      [key] { return explain(*key); })
      ->add_option("key", *key, "A key of `kiln cache list`")
      ->required();
  const auto limit = std::make_shared<std::uint64_t>(0);
  add("evict",
      "Remove the least recently used",
      [limit] {
        std::cout << describe_bytes(static_cast<double>(Cache().evict(*limit))) << " removed\n";
        return 0;
      })
      ->add_option("bytes", *limit, "How many bytes may stay")
      ->required();
}

}  // namespace kiln::tool
