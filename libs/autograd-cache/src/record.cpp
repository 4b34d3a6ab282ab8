#include "kiln/autograd_cache/record.hpp"

#include <cstdint>
#include <string_view>
#include <utility>

#include "byte_stream.hpp"
#include "component_list.hpp"
#include "kiln/base/error.hpp"

namespace kiln::autograd_cache {

namespace {

constexpr std::string_view kMagic = "KILNENTR";
constexpr std::uint32_t kVersion = 3;

// Names come in order, which rules out both duplicates and a second spelling of the same record.
template <class Value>
void insert_in_order(std::map<std::string, Value>& map, std::string_view name, Value value) {
  if (!map.empty() && name <= map.rbegin()->first) {
    throw Error(ErrorCode::kCorrupt, "a cache record has its names out of order");
  }
  map.emplace_hint(map.end(), std::string(name), std::move(value));
}

}  // namespace

bool is_plain_extension(std::string_view extension) {
  constexpr std::size_t kLongest = 8;
  return extension.empty() ||
         (extension.front() == '.' && extension.size() > 1 && extension.size() <= kLongest &&
          extension.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789", 1) ==
              std::string_view::npos);
}

std::string serialize(const Record& record) {
  ByteWriter writer;
  writer.raw(kMagic);
  writer.number(kVersion);
  write_components(writer, record.components);
  writer.text(record.guards);
  writer.number<std::uint64_t>(record.blobs.size());
  for (const auto& [name, bytes] : record.blobs) {
    writer.text(name);
    writer.text(bytes);
  }
  writer.number<std::uint64_t>(record.files.size());
  for (const auto& [name, file] : record.files) {
    writer.text(name);
    writer.digest(file.content);
    writer.text(file.extension);
  }
  return writer.take();
}

Record parse_record(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (reader.raw(kMagic.size()) != kMagic || reader.number<std::uint32_t>() != kVersion) {
    throw Error(ErrorCode::kCorrupt, "not a cache record, or one of another version");
  }

  Record record;
  record.components = read_components(reader);
  record.guards = reader.text();
  for (auto count = reader.number<std::uint64_t>(); count > 0; --count) {
    const std::string_view name = reader.text();
    insert_in_order(record.blobs, name, std::string(reader.text()));
  }
  for (auto count = reader.number<std::uint64_t>(); count > 0; --count) {
    const std::string_view name = reader.text();
    FileReference file;
    file.content = reader.digest();
    file.extension = reader.text();
    if (!is_plain_extension(file.extension)) {
      throw Error(ErrorCode::kCorrupt, "a cache record has an invalid file extension");
    }
    insert_in_order(record.files, name, std::move(file));
  }
  if (!reader.at_end()) {
    throw Error(ErrorCode::kCorrupt, "a cache record has trailing bytes");
  }
  return record;
}

}  // namespace kiln::autograd_cache
