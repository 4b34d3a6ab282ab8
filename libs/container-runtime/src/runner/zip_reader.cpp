#include "zip_reader.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "checksum.hpp"
#include "kiln/base/error.hpp"

namespace kiln::container_runtime {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034B50;
constexpr std::uint32_t kDirectoryEntry = 0x02014B50;
constexpr std::uint32_t kDirectoryEnd = 0x06054B50;
constexpr std::uint32_t kLargeDirectoryEnd = 0x06064B50;
constexpr std::uint32_t kLargeEndLocator = 0x07064B50;
constexpr std::uint64_t kLocalHeaderSize = 30;
constexpr std::uint64_t kDirectoryEntrySize = 46;
constexpr std::uint64_t kDirectoryEndSize = 22;
constexpr std::uint64_t kLocatorSize = 20;
constexpr std::uint64_t kLongestComment = 0xFFFF;
// In place of a number that stands in a field of 64 bits.
constexpr std::uint64_t kElsewhere = 0xFFFFFFFF;
constexpr std::uint16_t kLargeNumbers = 0x0001;
constexpr std::uint16_t kIsEncrypted = 1;
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;
// No deflated byte stands for more than so many.
constexpr std::uint64_t kLargestRatio = 1032;

}  // namespace

void ZipReader::fail(const std::string& why) const {
  throw Error(ErrorCode::kCorrupt, path_.string() + " is damaged or not a package: " + why);
}

void ZipReader::fail(const ZipMember& member, const std::string& why) const {
  throw Error(ErrorCode::kCorrupt, path_.string() + ": " + member.name + " is damaged: " + why);
}

// Little endian, whatever the machine is.
template <class Number>
Number ZipReader::number(std::uint64_t position) const {
  const std::string_view bytes = text(position, sizeof(Number));
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return static_cast<Number>(value);
}

std::string_view ZipReader::text(std::uint64_t position, std::uint64_t size) const {
  const Bytes all = file_.bytes();
  if (position > all.size() || size > all.size() - position) {
    fail("it is truncated");
  }
  return {reinterpret_cast<const char*>(all.data()) + position, size};
}

void ZipReader::require_signature(std::uint64_t position,
                                  std::uint32_t signature,
                                  const char* what) const {
  if (number<std::uint32_t>(position) != signature) {
    fail(std::string("there is no ") + what + " where there should be one");
  }
}

ZipReader::ZipReader(const std::filesystem::path& path) : path_(path), file_(path) {
  read_directory();
}

void ZipReader::read_directory() {
  const std::uint64_t size = file_.bytes().size();
  if (size < kDirectoryEndSize) {
    fail("it is too short");
  }
  // Only a comment may follow the end of the directory.
  std::uint64_t end = size - kDirectoryEndSize;
  const std::uint64_t first = end - std::min(end, kLongestComment);
  while (number<std::uint32_t>(end) != kDirectoryEnd ||
         end + kDirectoryEndSize + number<std::uint16_t>(end + 20) != size) {
    if (end == first) {
      fail("its directory is not at its end");
    }
    --end;
  }
  std::uint64_t count = number<std::uint16_t>(end + 10);
  std::uint64_t bytes = number<std::uint32_t>(end + 12);
  std::uint64_t begin = number<std::uint32_t>(end + 16);
  // libtorch writes the larger form always, whether it is needed or not.
  if (end >= kLocatorSize && number<std::uint32_t>(end - kLocatorSize) == kLargeEndLocator) {
    end = number<std::uint64_t>(end - kLocatorSize + 8);
    require_signature(end, kLargeDirectoryEnd, "end of its directory");
    count = number<std::uint64_t>(end + 32);
    bytes = number<std::uint64_t>(end + 40);
    begin = number<std::uint64_t>(end + 48);
  }
  if (begin > end || end - begin != bytes || count > bytes / kDirectoryEntrySize) {
    fail("its directory is not before its end");
  }
  std::uint64_t position = begin;
  for (std::uint64_t i = 0; i < count; ++i) {
    members_.push_back(read_entry(position));
  }
  if (position != end) {
    fail("its directory has another size");
  }
}

// Moves `position` behind the entry.
ZipMember ZipReader::read_entry(std::uint64_t& position) const {
  require_signature(position, kDirectoryEntry, "entry of its directory");
  ZipMember member;
  const auto flags = number<std::uint16_t>(position + 8);
  const auto method = number<std::uint16_t>(position + 10);
  member.checksum = number<std::uint32_t>(position + 16);
  member.packed = number<std::uint32_t>(position + 20);
  member.bytes = number<std::uint32_t>(position + 24);
  const auto name = number<std::uint16_t>(position + 28);
  const auto fields = number<std::uint16_t>(position + 30);
  const auto comment = number<std::uint16_t>(position + 32);
  std::uint64_t header = number<std::uint32_t>(position + 42);
  position += kDirectoryEntrySize;
  member.name = text(position, name);
  position += name;
  const std::uint64_t fields_end = position + fields;
  for (std::uint64_t field = position; field + 4 <= fields_end;) {
    const auto kind = number<std::uint16_t>(field);
    const std::uint64_t field_end = field + 4 + number<std::uint16_t>(field + 2);
    field += 4;
    if (kind == kLargeNumbers) {
      // Only those that did not fit, in this order.
      for (std::uint64_t* const value : {&member.bytes, &member.packed, &header}) {
        if (*value == kElsewhere && field + 8 <= field_end) {
          *value = number<std::uint64_t>(field);
          field += 8;
        }
      }
    }
    field = field_end;
  }
  position = fields_end + comment;
  if ((flags & kIsEncrypted) != 0 || (method != kStored && method != kDeflated)) {
    fail(member, "it is encrypted, or packed in an unknown way");
  }
  member.is_stored = method == kStored;
  if (member.is_stored ? member.packed != member.bytes
                       : member.bytes / kLargestRatio > member.packed) {
    fail(member, "its sizes cannot be right");
  }
  find_bytes(member, header);
  return member;
}

// What stands before the file must agree with the directory in what is needed of it.
void ZipReader::find_bytes(ZipMember& member, std::uint64_t header) const {
  if (header > file_.bytes().size() - kLocalHeaderSize) {
    fail(member, "it is outside of the file");
  }
  require_signature(header, kLocalHeader, "header of a file");
  const auto name = number<std::uint16_t>(header + 26);
  if (text(header + kLocalHeaderSize, name) != member.name) {
    fail(member, "before it there is another name");
  }
  member.offset = header + kLocalHeaderSize + name + number<std::uint16_t>(header + 28);
  (void)text(member.offset, member.packed);
}

Bytes ZipReader::stored(const ZipMember& member) const {
  ensure(member.is_stored, "the bytes of a deflated file are not in the zip file");
  return file_.bytes().subspan(member.offset, member.bytes);
}

void ZipReader::verify(const ZipMember& member) const {
  if (checksum(0, stored(member)) != member.checksum) {
    fail(member, "checksum mismatch");
  }
}

std::string ZipReader::read(const ZipMember& member) const {
  if (!member.is_stored) {
    return inflated(member);
  }
  verify(member);
  return std::string(text(member.offset, member.bytes));
}

std::string ZipReader::inflated(const ZipMember& member) const {
  std::string result(member.bytes, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    fail(member, "it cannot be inflated");
  }
  const std::string_view packed = text(member.offset, member.packed);
  constexpr std::uint64_t kMost = std::numeric_limits<uInt>::max();
  std::uint64_t taken = 0, given = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data())) + taken;
    stream.avail_in = static_cast<uInt>(std::min(packed.size() - taken, kMost));
    stream.next_out = reinterpret_cast<Bytef*>(result.data()) + given;
    stream.avail_out = static_cast<uInt>(std::min(result.size() - given, kMost));
    const uInt in = stream.avail_in, out = stream.avail_out;
    state = inflate(&stream, Z_NO_FLUSH);
    taken += in - stream.avail_in;
    given += out - stream.avail_out;
  }
  inflateEnd(&stream);
  if (state != Z_STREAM_END || given != member.bytes) {
    fail(member, "it cannot be inflated");
  }
  if (checksum(0, std::as_bytes(std::span(result))) != member.checksum) {
    fail(member, "checksum mismatch");
  }
  return result;
}

}  // namespace kiln::container_runtime
