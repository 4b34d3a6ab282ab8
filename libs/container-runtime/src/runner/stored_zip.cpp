#include "stored_zip.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::container_runtime {
namespace {

// Where a member's bytes begin, as in libtorch's archives.
constexpr std::uint64_t kAlignment = 64;
// From here on a number stands in a field of 64 bits, which has its own place.
constexpr std::uint64_t kLargest = 0xFFFFFFFF;
constexpr std::uint64_t kMostMembers = 0xFFFF;
constexpr std::uint16_t kVersion = 45;  // The first with such fields.
constexpr std::uint16_t kNamesAreUtf8 = 1 << 11;
constexpr std::uint16_t kFirstOfJanuary1980 = (1 << 5) | 1;
constexpr std::uint16_t kLargeNumbers = 0x0001;
constexpr std::uint16_t kPadding = 0x4246;  // "FB", as libtorch's own.
constexpr std::size_t kFieldHeader = 4;
// Below it a second thread is not worth its start.
constexpr std::uint64_t kFew = 1 << 20;

// Little endian, whatever the machine is.
template <class Number>
void put(std::string& text, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    text.push_back(static_cast<char>((static_cast<std::uint64_t>(number) >> (8 * i)) & 0xFF));
  }
}

std::uint32_t short_form(std::uint64_t number) {
  return static_cast<std::uint32_t>(std::min(number, kLargest));
}

Bytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::uint32_t checksum_of(std::span<const Bytes> parts, const std::stop_token& stop) {
  std::uint32_t sum = 0;
  for (const Bytes& part : parts) {
    if (stop.stop_requested()) {
      break;
    }
    sum = checksum(sum, part);
  }
  return sum;
}

// The fields that local and central headers share.
void put_common(std::string& header, std::uint32_t checksum, std::uint64_t bytes, bool is_large) {
  put(header, kVersion);
  put(header, kNamesAreUtf8);
  put(header, std::uint16_t{0});  // Stored.
  put(header, std::uint16_t{0});  // Midnight.
  put(header, kFirstOfJanuary1980);
  put(header, checksum);
  const auto size = is_large ? static_cast<std::uint32_t>(kLargest) : short_form(bytes);
  put(header, size);  // As it is stored, and as it was.
  put(header, size);
}

}  // namespace

StoredZip::StoredZip(const std::filesystem::path& path)
    : path_(path), file_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (file_ < 0) {
    throw Error(ErrorCode::kIo, path.string() + " cannot be written: " + std::strerror(errno));
  }
}

StoredZip::~StoredZip() {
  if (file_ >= 0) {
    close(file_);
  }
}

void StoredZip::write_at(std::uint64_t offset, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      throw Error(ErrorCode::kIo, path_.string() + " cannot be written: " + std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void StoredZip::write(Bytes bytes) {
  write_at(position_, bytes);
  position_ += bytes.size();
}

std::string StoredZip::local_header(const Member& member) {
  std::string fields;
  if (member.is_large) {
    put(fields, kLargeNumbers);
    put(fields, std::uint16_t{16});
    put(fields, member.bytes);
    put(fields, member.bytes);
  }
  std::string header;
  put(header, std::uint32_t{0x04034B50});
  put_common(header, member.checksum, member.bytes, member.is_large);
  put(header, static_cast<std::uint16_t>(member.name.size()));
  const std::uint64_t end =
      member.offset + header.size() + 2 + member.name.size() + fields.size() + kFieldHeader;
  const auto padding = static_cast<std::uint16_t>((kAlignment - end % kAlignment) % kAlignment);
  put(fields, kPadding);
  put(fields, padding);
  fields.append(padding, 'Z');
  put(header, static_cast<std::uint16_t>(fields.size()));
  return header + member.name + fields;
}

std::string StoredZip::directory_entry(const Member& member) {
  const bool is_large = member.is_large;
  const bool is_far = member.offset >= kLargest;
  std::string fields;
  if (is_large || is_far) {
    put(fields, kLargeNumbers);
    put(fields, static_cast<std::uint16_t>((is_large ? 16 : 0) + (is_far ? 8 : 0)));
    if (is_large) {
      put(fields, member.bytes);
      put(fields, member.bytes);
    }
    if (is_far) {
      put(fields, member.offset);
    }
  }
  std::string entry;
  put(entry, std::uint32_t{0x02014B50});
  put(entry, kVersion);
  put_common(entry, member.checksum, member.bytes, is_large);
  put(entry, static_cast<std::uint16_t>(member.name.size()));
  put(entry, static_cast<std::uint16_t>(fields.size()));
  put(entry, std::uint16_t{0});  // No comment,
  put(entry, std::uint16_t{0});  // on the first disk,
  put(entry, std::uint16_t{0});  // bytes,
  put(entry, std::uint32_t{0});  // without attributes.
  put(entry, short_form(member.offset));
  return entry + member.name + fields;
}

std::string StoredZip::directory_end(std::uint64_t begin) const {
  const std::uint64_t end = position_, bytes = end - begin, count = members_.size();
  std::string text;
  if (begin >= kLargest || bytes >= kLargest || count >= kMostMembers) {
    put(text, std::uint32_t{0x06064B50});
    put(text, std::uint64_t{44});  // What follows of this record.
    put(text, kVersion);
    put(text, kVersion);
    put(text, std::uint32_t{0});  // This disk, and the one where the directory begins.
    put(text, std::uint32_t{0});
    put(text, count);
    put(text, count);
    put(text, bytes);
    put(text, begin);
    put(text, std::uint32_t{0x07064B50});  // Where that record is.
    put(text, std::uint32_t{0});
    put(text, end);
    put(text, std::uint32_t{1});
  }
  put(text, std::uint32_t{0x06054B50});
  put(text, std::uint32_t{0});
  const auto shown = static_cast<std::uint16_t>(std::min(count, kMostMembers));
  put(text, shown);
  put(text, shown);
  put(text, short_form(bytes));
  put(text, short_form(begin));
  put(text, std::uint16_t{0});
  return text;
}

void StoredZip::put_member(Member member) {
  position_ += local_header(member).size() + member.room;
  members_.push_back(std::move(member));
}

void StoredZip::add(std::string name, std::span<const Bytes> parts) {
  put_member(
      {.name = std::move(name), .offset = position_, .is_large = total_size(parts) >= kLargest});
  append(parts);
  complete({});
}

void StoredZip::begin(std::string name, std::uint64_t room) {
  // Nobody knows yet how large it becomes.
  put_member({.name = std::move(name),
              .offset = position_,
              .room = room,
              .bytes = room,
              .is_large = true});
}

void StoredZip::append(std::span<const Bytes> parts, const std::stop_token& stop) {
  const std::uint64_t bytes = total_size(parts);
  const auto policy = bytes < kFew ? std::launch::deferred : std::launch::async;
  std::future<std::uint32_t> sum = std::async(policy, checksum_of, parts, stop);
  for (const Bytes& part : parts) {
    if (stop.stop_requested()) {
      return;
    }
    write(part);
  }
  Member& member = members_.back();
  member.checksum = joined_checksum(member.checksum, sum.get(), bytes);
  member.bytes += bytes;
}

void StoredZip::complete(Bytes head) {
  Member& member = members_.back();
  ensure(head.size() <= member.room, "a member's beginning is larger than the room for it");
  std::uint32_t sum = checksum(0, head);
  static constexpr std::array<std::byte, 4096> kZeros = {};
  for (std::uint64_t left = member.room - head.size(); left != 0;) {
    const Bytes zeros = std::span(kZeros).first(std::min(left, std::uint64_t{kZeros.size()}));
    sum = checksum(sum, zeros);
    left -= zeros.size();
  }
  member.checksum = joined_checksum(sum, member.checksum, member.bytes - member.room);
  const std::string header = local_header(member);
  write_at(member.offset, bytes_of(header));
  write_at(member.offset + header.size(), head);
}

void StoredZip::add(std::string name, std::string_view bytes) {
  const Bytes whole = bytes_of(bytes);
  add(std::move(name), std::span(&whole, 1));
}

SizedChecksum StoredZip::last_checksum() const {
  return {members_.back().bytes, members_.back().checksum};
}

std::string StoredZip::identification() const {
  std::string names, sums;
  for (const Member& member : members_) {
    names += member.name + '\n';
    put(sums, member.checksum);
  }
  std::string text;
  for (const std::string& part : {names, sums}) {
    const std::string digits = std::to_string(checksum(0, bytes_of(part)));
    text += std::string(20 - digits.size(), '0') + digits;
  }
  return text;
}

void StoredZip::finish() {
  const std::uint64_t begin = position_;
  std::string directory;
  for (const Member& member : members_) {
    directory += directory_entry(member);
  }
  write(bytes_of(directory));
  write(bytes_of(directory_end(begin)));
  if (close(std::exchange(file_, -1)) != 0) {
    throw Error(ErrorCode::kIo, path_.string() + " cannot be written: " + std::strerror(errno));
  }
}

}  // namespace kiln::container_runtime
