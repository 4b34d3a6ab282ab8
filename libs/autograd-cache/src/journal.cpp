#include "journal.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "byte_stream.hpp"
#include "component_list.hpp"
#include "file_lock.hpp"
#include "kiln/autograd_cache/mapped_blob.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/file_descriptor.hpp"

namespace kiln::autograd_cache {
namespace fs = std::filesystem;

namespace {

constexpr const char* kLastMiss = "last-miss";
constexpr const char* kRecentKeys = "recent-keys";
constexpr std::int64_t kLargestJournal = 64 << 10;

// One key: its length, its digest, its components. The digest finds what two writers tore.
std::string frame(const Key& key) {
  ByteWriter components;
  write_components(components, key.components());
  const std::string bytes = components.take();
  ByteWriter writer;
  writer.digest(digest(bytes));
  writer.text(bytes);
  return writer.take();
}

// Nothing where the bytes are torn: what follows cannot be parsed.
std::optional<KeyComponents> next_frame(ByteReader& reader) {
  try {
    const Digest expected = reader.digest();
    const std::string_view bytes = reader.text();
    if (digest(bytes) != expected) {
      return std::nullopt;
    }
    ByteReader components(std::as_bytes(std::span(bytes)));
    return read_components(components);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// One write at most: no lock, no second attempt.
void write_once(const fs::path& path, int flags, std::string_view bytes) {
  const FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
  if (file.open() && ::write(file.number(), bytes.data(), bytes.size()) < 0) {
    return;  // An explanation the less.
  }
}

// Keeps the later half, from the first whole frame on; of a torn journal, nothing.
void shorten(const fs::path& path) {
  const auto lock = FileLock::acquire(path, std::chrono::milliseconds(0));
  const auto file = lock ? MappedBlob::map(path) : std::nullopt;
  if (!file) {
    return;
  }
  ByteReader reader(file->bytes());
  std::size_t start = 0;
  while (start < file->bytes().size() / 2) {
    start = file->bytes().size() - (next_frame(reader) ? reader.rest() : 0);
  }
  try {
    write_file_atomically(
        path, file->bytes().subspan(start), Durability::kEventual, Writers::kOwnerOnly);
  } catch (const Error&) {
    ::unlink(path.c_str());
  }
}

}  // namespace

void Journal::remember_miss(const Key& key) const {
  write_once(root_ / kLastMiss, 0, frame(key));
}

std::optional<KeyComponents> Journal::last_miss() const {
  const auto file = MappedBlob::map(root_ / kLastMiss);
  if (!file) {
    return std::nullopt;
  }
  ByteReader reader(file->bytes());
  return next_frame(reader);
}

void Journal::remember_saved(const Key& key) const {
  const fs::path path = root_ / kRecentKeys;
  write_once(path, O_APPEND, frame(key));
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0 && status.st_size > kLargestJournal) {
    shorten(path);
  }
}

std::vector<KeyComponents> Journal::recently_saved() const {
  std::vector<KeyComponents> keys;
  if (const auto file = MappedBlob::map(root_ / kRecentKeys)) {
    ByteReader reader(file->bytes());
    while (!reader.at_end()) {
      std::optional<KeyComponents> key = next_frame(reader);
      if (!key) {
        break;
      }
      keys.push_back(std::move(*key));
    }
  }
  return keys;
}

void Journal::clear() const {
  ::unlink((root_ / kLastMiss).c_str());
  ::unlink((root_ / kRecentKeys).c_str());
}

}  // namespace kiln::autograd_cache
