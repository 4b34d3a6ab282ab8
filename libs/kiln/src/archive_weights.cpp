#include "archive_weights.hpp"

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>

#include "kiln/base/error.hpp"

namespace kiln {
namespace fs = std::filesystem;

namespace {

struct Place {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

autograd_cache::MappedBlob map_archive(const fs::path& archive) {
  std::error_code failure;
  auto mapped = autograd_cache::MappedBlob::map(fs::canonical(archive, failure));
  if (!mapped) {
    throw Error(ErrorCode::kIo, "cannot read " + archive.string());
  }
  return std::move(*mapped);
}

// The records by their size.
std::multimap<std::uint64_t, Place> records_of(const fs::path& archive) {
  caffe2::serialize::PyTorchStreamReader reader(archive.string());
  std::multimap<std::uint64_t, Place> places;
  for (const std::string& name : reader.getAllRecords()) {
    const Place place{reader.getRecordOffset(name), reader.getRecordSize(name)};
    places.emplace(place.bytes, place);
  }
  return places;
}

}  // namespace

std::optional<std::string> locate_weights(const fs::path& archive,
                                          std::span<const codegen::ConstantData> constants) {
  if (constants.empty()) {
    return "";
  }
  const autograd_cache::MappedBlob mapped = map_archive(archive);
  std::multimap<std::uint64_t, Place> records;
  try {
    records = records_of(archive);
  } catch (const std::exception&) {
    return std::nullopt;
  }

  // Constants that share memory have one place in a library, others have their own: it must be so
  // in the archive too.
  std::map<const std::byte*, Place> found;
  std::ostringstream places;
  for (const codegen::ConstantData& constant : constants) {
    const std::span<const std::byte> bytes = constant.bytes;
    if (!found.contains(bytes.data())) {
      const auto [first, last] = records.equal_range(bytes.size());
      const auto match = std::find_if(first, last, [&](const auto& record) {
        const std::uint64_t end = record.second.offset + record.second.bytes;
        return end <= mapped.bytes().size() &&
               std::ranges::equal(mapped.bytes().subspan(record.second.offset, bytes.size()),
                                  bytes);
      });
      if (match == last) {
        return std::nullopt;
      }
      found.emplace(bytes.data(), match->second);
      records.erase(match);
    }
    const Place& place = found.at(bytes.data());
    if (place.bytes != bytes.size()) {
      return std::nullopt;
    }
    places << place.offset << " " << place.bytes << "\n";
  }
  return places.str();
}

ArchivedWeights::ArchivedWeights(const fs::path& archive, std::string_view places)
    : archive_(map_archive(archive)) {
  std::istringstream lines{std::string(places)};
  Place place;
  while (lines >> place.offset >> place.bytes) {
    if (place.offset > archive_.bytes().size() ||
        place.bytes > archive_.bytes().size() - place.offset) {
      throw Error(ErrorCode::kCorrupt, "a weight lies beyond the end of " + archive.string());
    }
    constants_.push_back({archive_.bytes().subspan(place.offset, place.bytes)});
  }
}

}  // namespace kiln
