// Bundles: entries with their files in one file, for machines that have no compiler.
//
//   0   8  "KILNBNDL"
//   8   4  format version: 1
//   12  8  number of items, each of which is
//          8 + n  kind ("variant", "file"), with its length
//          32     key of the variant, or content of the file
//          8 + n  sealed value (sealed_value.hpp), with its length
//
// Numbers are little-endian. The files of an entry come before it.

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "byte_stream.hpp"
#include "cache_state.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/pending_file.hpp"
#include "layout.hpp"
#include "sealed_value.hpp"

namespace kiln::autograd_cache {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMagic = "KILNBNDL";
constexpr std::uint32_t kVersion = 1;
constexpr std::string_view kVariant = "variant";
constexpr std::string_view kFile = "file";

std::string header(std::uint64_t items) {
  ByteWriter writer;
  writer.raw(kMagic);
  writer.number(kVersion);
  writer.number(items);
  return writer.take();
}

// Item by item, so that a bundle may be larger than memory.
class BundleWriter {
 public:
  BundleWriter(const fs::path& path, std::string_view secret)
      : path_(path), stream_(path, std::ios::binary | std::ios::trunc), secret_(secret) {
    stream_ << header(0);
  }

  void add(ValueKind kind, const Digest& key, std::span<const std::byte> bytes) {
    ByteWriter writer;
    writer.text(kind == ValueKind::kFile ? kFile : kVariant);
    writer.digest(key);
    writer.text(seal_value(kind, key, bytes, secret_));
    stream_ << writer.take();
    ++items_;
  }

  void finish() {
    stream_.seekp(0);
    stream_ << header(items_);
    stream_.close();
    if (!stream_) {
      throw Error(ErrorCode::kIo, "cannot write " + path_.string());
    }
  }

 private:
  fs::path path_;
  std::ofstream stream_;
  std::string secret_;
  std::uint64_t items_ = 0;
};

// A name beside `target` that no other export writes to.
fs::path pending_name(const fs::path& target) {
  static std::atomic<unsigned> counter{0};
  return target.string() + ".part." + std::to_string(::getpid()) + "." + std::to_string(counter++);
}

struct Item {
  ValueKind kind;
  Digest key;
  std::string_view sealed;
};

// Throws `kCorrupt` unless all of it is as a bundle should be; values are not opened yet.
std::vector<Item> items_of(const MappedBlob& bundle) {
  ByteReader reader(bundle.bytes());
  if (reader.raw(kMagic.size()) != kMagic || reader.number<std::uint32_t>() != kVersion) {
    throw Error(ErrorCode::kCorrupt, "not a cache bundle, or one of another version");
  }
  std::vector<Item> items;
  for (auto count = reader.number<std::uint64_t>(); count > 0; --count) {
    const std::string_view kind = reader.text();
    if (kind != kFile && kind != kVariant) {
      throw Error(ErrorCode::kCorrupt, "a bundle holds an unknown kind of item");
    }
    const Digest key = reader.digest();
    items.push_back({kind == kFile ? ValueKind::kFile : ValueKind::kVariant, key, reader.text()});
  }
  if (!reader.at_end()) {
    throw Error(ErrorCode::kCorrupt, "a bundle has trailing bytes");
  }
  return items;
}

MappedBlob opened(const Item& item, std::string_view secret) {
  std::optional<MappedBlob> value = open_value(item.kind, item.key, item.sealed, secret);
  if (!value) {
    throw Error(ErrorCode::kCorrupt, "a bundle is damaged, or not signed with the secret");
  }
  return std::move(*value);
}

}  // namespace

std::uint64_t Cache::export_bundle(const fs::path& path, std::span<const Digest> keys) const {
  const std::set<Digest> wanted(keys.begin(), keys.end());
  PendingFile pending(pending_name(path));
  BundleWriter writer(pending.path(), state_->secret);
  std::set<FileReference> written;
  std::uint64_t entries = 0;
  const auto add = [&](const ArtifactStore::Variant& variant) {
    const std::optional<Record> record = parse_or_nothing(variant.content);
    if (!record || (!wanted.empty() && !wanted.contains(variant.key))) {
      return;
    }
    for (const auto& [name, reference] : record->files) {
      const auto found = state_->store->find_file(reference);
      const auto bytes = found ? MappedBlob::map(*found) : std::nullopt;
      if (!bytes) {
        return;  // As good as gone: an entry without its files is none.
      }
      if (written.insert(reference).second) {
        writer.add(ValueKind::kFile, reference.content, bytes->bytes());
      }
    }
    writer.add(ValueKind::kVariant, variant.key, variant.content);
    ++entries;
  };
  if (enabled()) {
    state_->store->visit_variants(add);
  }
  writer.finish();
  pending.rename_to(path);
  return entries;
}

std::uint64_t Cache::import_bundle(const fs::path& path) {
  std::error_code failure;
  const auto bundle = MappedBlob::map(fs::canonical(path, failure));  // It maps no link itself.
  if (!bundle) {
    throw Error(ErrorCode::kIo, "cannot read " + path.string());
  }
  if (!state_->saves()) {
    throw Error(ErrorCode::kIo, "the cache in " + directory().string() + " cannot be written to");
  }
  const std::vector<Item> items = items_of(*bundle);

  // Everything is looked at before anything is taken. Files have their names from the entries that
  // ask for them, so entries are read first.
  std::map<Digest, std::set<FileReference>> names;
  for (const Item& item : items) {
    const MappedBlob value = opened(item, state_->secret);
    if (item.kind == ValueKind::kVariant) {
      const Record record = parse_record(value.bytes());
      if (Key(record.components).digest() != item.key) {
        throw Error(ErrorCode::kCorrupt, "a bundle holds an entry under a wrong key");
      }
      for (const auto& [name, reference] : record.files) {
        names[reference.content].insert(reference);
      }
    }
  }

  std::uint64_t entries = 0;
  bool stored = true;
  for (const Item& item : items) {
    const MappedBlob value = opened(item, state_->secret);
    if (item.kind == ValueKind::kVariant) {
      stored = state_->store->put_variant(item.key, value.bytes()) && stored;
      ++entries;
      continue;
    }
    for (const FileReference& reference : names[item.key]) {
      stored = state_->store->put_file(reference, value.bytes()) && stored;
    }
  }
  if (!stored) {
    throw Error(ErrorCode::kIo, "not all of the bundle could be stored in " + directory().string());
  }
  return entries;
}

}  // namespace kiln::autograd_cache
