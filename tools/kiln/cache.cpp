// kiln cache: what is in the cache, why something was not, and how it gets in and out.

#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "format.hpp"
#include "json_text.hpp"
#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/error.hpp"

namespace kiln::tool {
namespace {

using autograd_cache::Cache;
using autograd_cache::CounterName;
using autograd_cache::Counters;
using autograd_cache::Difference;
using autograd_cache::EntrySummary;
using autograd_cache::Key;
using autograd_cache::KeyComponent;

std::string size_text(std::uint64_t bytes) {
  return describe_bytes(static_cast<double>(bytes));
}

// Prints one or the other.
int report(bool as_json, const nlohmann::json& object, const std::string& text) {
  std::cout << (as_json ? json_text(object) : text) << "\n";
  return 0;
}

double seconds_since(std::filesystem::file_time_type time) {
  return std::chrono::duration<double>(std::filesystem::file_time_type::clock::now() - time)
      .count();
}

nlohmann::json to_json(const Counters& counters) {
  nlohmann::json object;
  for (const CounterName& counter : autograd_cache::kCounterNames) {
    object[counter.name] = counters.*counter.member;
  }
  object["bypass_reasons"] = counters.bypass_reasons;
  return object;
}

int stats(bool as_json) {
  const Cache cache;
  const autograd_cache::StoreStats stats = cache.stats();
  const Counters totals = cache.totals();
  std::string text = cache.directory().string() + ": " + std::to_string(stats.variants) +
                     " entries, " + std::to_string(stats.files) + " libraries, " +
                     std::to_string(stats.blobs) + " objects, " + size_text(stats.bytes) + " of " +
                     size_text(autograd_cache::default_limit()) + "\n";
  for (const CounterName& counter : autograd_cache::kCounterNames) {
    if (totals.*counter.member > 0) {
      text += std::string(counter.name) + " " + std::to_string(totals.*counter.member) + "  ";
    }
  }
  for (const auto& [reason, count] : totals.bypass_reasons) {
    text += "\n" + std::to_string(count) + " bypassed: " + reason;
  }
  return report(as_json,
                {{"directory", cache.directory().string()},
                 {"enabled", cache.enabled()},
                 {"bytes", stats.bytes},
                 {"limit", autograd_cache::default_limit()},
                 {"blobs", stats.blobs},
                 {"files", stats.files},
                 {"entries", stats.variants},
                 {"counters", to_json(totals)}},
                text);
}

int list(bool as_json) {
  nlohmann::json rows = nlohmann::json::array();
  std::string text;
  for (const EntrySummary& entry : Cache().list()) {
    const double age = seconds_since(entry.last_used);
    rows.push_back({{"key", entry.key.hex()},
                    {"bytes", entry.bytes_on_disk},
                    {"file_bytes", entry.file_bytes},
                    {"seconds_since_use", age},
                    {"guards", entry.guards},
                    {"blobs", entry.blobs},
                    {"files", entry.files}});
    text += (text.empty() ? "" : "\n") + entry.key.hex() + "  " +
            size_text(entry.bytes_on_disk + entry.file_bytes) + ", used " +
            std::to_string(static_cast<long>(age)) + " s ago";
  }
  return report(as_json, rows, text.empty() ? "the cache is empty" : text);
}

// A key of the cache, or the beginning of one; LAST is that of the last miss.
Key find_key(const Cache& cache, const std::string& text) {
  std::optional<Key> key;
  if (text == "LAST") {
    key = cache.last_miss();
    if (!key) {
      throw Error(ErrorCode::kInvalidArgument, "no cache miss has been recorded");
    }
    return *key;
  }
  constexpr std::size_t kShortest = 4;
  for (const EntrySummary& entry : cache.list()) {
    if (text.size() >= kShortest && entry.key.hex().starts_with(text)) {
      if (key && key->digest() != entry.key) {
        throw Error(ErrorCode::kInvalidArgument, "several entries begin with '" + text + "'");
      }
      key = cache.stored_key(entry.key);
    }
  }
  if (!key) {
    throw Error(ErrorCode::kInvalidArgument,
                "the cache has no entry '" + text + "'; `kiln cache list` shows them");
  }
  return *key;
}

std::string in_quotes(const std::string& summary) {
  return summary.empty() ? "(long)" : "'" + summary + "'";
}

int explain(const std::string& wanted, bool as_json) {
  const Cache cache;
  const Key key = find_key(cache, wanted);
  nlohmann::json object{{"key", key.digest().hex()}};
  std::string text = key.digest().hex();
  for (const KeyComponent& component : key.components()) {
    object["components"].push_back({{"name", component.name},
                                    {"digest", component.digest.hex()},
                                    {"summary", component.summary}});
    text += "\n  " + component.name + "  " +
            (component.summary.empty() ? component.digest.hex().substr(0, 16)
                                       : "'" + component.summary + "'");
  }
  for (const EntrySummary& entry : cache.list()) {
    if (entry.key == key.digest()) {
      object["guards"].push_back(entry.guards);
      text += "\nan entry under this key is valid if\n" + entry.guards;
    }
  }
  if (const auto nearest = cache.explain(key)) {
    object["nearest"] = nearest->nearest.hex();
    object["differences"] = nlohmann::json::array();
    text += "\nthe nearest other entry, " + nearest->nearest.hex().substr(0, 16) + ", differs in";
    for (const Difference& difference : nearest->differences) {
      object["differences"].push_back(
          {{"name", difference.name}, {"here", difference.here}, {"there", difference.there}});
      text += "\n  " + difference.name + ": " + in_quotes(difference.here) + " here, " +
              in_quotes(difference.there) + " there";
    }
  }
  return report(as_json, object, text);
}

int verify(bool as_json) {
  const autograd_cache::VerifyReport done = Cache().verify();
  report(as_json,
         {{"checked", done.checked}, {"removed", done.removed}},
         std::to_string(done.checked) + " files checked, " + std::to_string(done.removed) +
             " damaged ones removed");
  return done.removed == 0 ? 0 : 1;
}

int evict(const std::string& limit, bool as_json) {
  const auto bytes = autograd_cache::parse_byte_count(limit);
  if (!bytes) {
    throw Error(ErrorCode::kInvalidArgument, "'" + limit + "' is not a size; try 500M or 10G");
  }
  const std::uint64_t removed = Cache().evict(*bytes);
  return report(as_json, {{"removed_bytes", removed}}, size_text(removed) + " removed");
}

int clear(bool as_json) {
  Cache cache;
  const std::uint64_t bytes = cache.stats().bytes;
  cache.clear();
  const std::uint64_t removed = bytes - cache.stats().bytes;
  return report(as_json, {{"removed_bytes", removed}}, size_text(removed) + " removed");
}

int export_bundle(const std::string& path, const std::vector<std::string>& keys, bool as_json) {
  const Cache cache;
  std::vector<Digest> wanted;
  for (const std::string& key : keys) {
    wanted.push_back(find_key(cache, key).digest());
  }
  const std::uint64_t entries = cache.export_bundle(path, wanted);
  const std::uint64_t bytes = std::filesystem::file_size(path);
  return report(as_json,
                {{"bundle", path}, {"entries", entries}, {"bytes", bytes}},
                path + ": " + std::to_string(entries) + " entries, " + size_text(bytes));
}

int import_bundle(const std::string& path, bool as_json) {
  const std::uint64_t entries = Cache().import_bundle(path);
  return report(
      as_json, {{"entries", entries}}, std::to_string(entries) + " entries imported from " + path);
}

}  // namespace

void add_cache(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("cache", "The disk cache ($KILN_CACHE_DIR)");
  command->require_subcommand(1);
  command->footer(R"(Examples:
  kiln cache stats
  kiln cache explain LAST                            why the last compile was not found
  kiln cache evict 2G
  kiln cache export bundle && kiln cache import bundle   on a machine without a compiler)");
  const auto add = [&](const char* name, const char* help, std::function<int(bool)> action) {
    CLI::App* part = command->add_subcommand(name, help);
    part->add_flag("--json", session.json, "Print JSON");
    part->callback([action, &session] {
      session.action = [action, &session] { return action(session.json); };
    });
    return part;
  };
  add("stats", "How much is in it, and what happened so far", stats);
  add("list", "Every entry, the most recently used first", list);
  add("verify", "Check every file, remove damaged ones", verify);
  add("clear", "Remove everything", clear);

  const auto text = std::make_shared<std::string>();
  const auto keys = std::make_shared<std::vector<std::string>>();
  add("explain",
      "The components of a key, and how they differ from the nearest entry",
      [text](bool as_json) { return explain(*text, as_json); })
      ->add_option("key", *text, "A key of `kiln cache list`, or LAST: the last miss")
      ->required();
  add("evict",
      "Remove the least recently used",
      [text](bool as_json) { return evict(*text, as_json); })
      ->add_option("size", *text, "How much to keep: 500M, 10G, or a number of bytes")
      ->required();
  CLI::App* out = add("export",
                      "Write entries to a bundle, for machines that have no compiler",
                      [text, keys](bool as_json) { return export_bundle(*text, *keys, as_json); });
  out->add_option("bundle", *text, "The file to write")->required();
  out->add_option("keys", *keys, "Which entries; all by default");
  add("import",
      "Import the entries of a bundle",
      [text](bool as_json) { return import_bundle(*text, as_json); })
      ->add_option("bundle", *text, "A file of `kiln cache export`")
      ->required()
      ->check(CLI::ExistingFile);
}

}  // namespace kiln::tool
