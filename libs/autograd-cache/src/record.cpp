#include "kiln/autograd_cache/record.hpp"

#include <cstdint>
#include <string_view>
#include <utility>

#include "byte_stream.hpp"
#include "kiln/base/error.hpp"

namespace kiln::autograd_cache {

namespace {

constexpr std::string_view kMagic = "KILNENTR";
constexpr std::uint32_t kVersion = 1;

// Names come in order, which rules out both duplicates and a second spelling of the same record.
template <class Value>
void insert_in_order(std::map<std::string, Value>& map, std::string_view name, Value value) {
  if (!map.empty() && name <= map.rbegin()->first) {
    throw Error(ErrorCode::kCorrupt, "a cache record has its names out of order");
  }
  map.emplace_hint(map.end(), std::string(name), std::move(value));
}

}  // namespace

std::string serialize(const Record& record) {
  ByteWriter writer;
  writer.raw(kMagic);
  writer.number(kVersion);
  writer.number<std::uint64_t>(record.components.size());
  for (const KeyComponent& component : record.components) {
    writer.text(component.name);
    writer.digest(component.digest);
  }
  writer.text(record.guards);
  writer.number<std::uint64_t>(record.blobs.size());
  for (const auto& [name, bytes] : record.blobs) {
    writer.text(name);
    writer.text(bytes);
  }
  writer.number<std::uint64_t>(record.files.size());
  for (const auto& [name, content] : record.files) {
    writer.text(name);
    writer.digest(content);
  }
  return writer.take();
}

Record parse_record(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (reader.raw(kMagic.size()) != kMagic || reader.number<std::uint32_t>() != kVersion) {
    throw Error(ErrorCode::kCorrupt, "these bytes are no cache record of this version");
  }

  // Counts are not trusted with memory: each element must be there before room is made for it.
  Record record;
  for (auto count = reader.number<std::uint64_t>(); count > 0; --count) {
    std::string name(reader.text());
    for (const KeyComponent& other : record.components) {
      if (other.name == name) {
        throw Error(ErrorCode::kCorrupt, "a cache record names a key component twice");
      }
    }
    record.components.push_back({std::move(name), reader.digest()});
  }
  record.guards = reader.text();
  for (auto count = reader.number<std::uint64_t>(); count > 0; --count) {
    const std::string_view name = reader.text();
    insert_in_order(record.blobs, name, std::string(reader.text()));
  }
  for (auto count = reader.number<std::uint64_t>(); count > 0; --count) {
    const std::string_view name = reader.text();
    insert_in_order(record.files, name, reader.digest());
  }
  if (!reader.at_end()) {
    throw Error(ErrorCode::kCorrupt, "a cache record goes on after its end");
  }
  return record;
}

}  // namespace kiln::autograd_cache
