#include "archive_file.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <tuple>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::exporter {
namespace {

// Of a zip file: every archive starts with the header of its first record.
constexpr std::string_view kLocalHeaderSignature = "PK\x03\x04";
constexpr std::size_t kLocalHeaderSize = 30;
constexpr std::size_t kCompressionMethodOffset = 8;

std::string first_line(const c10::Error& error) {
  const std::string message = error.what_without_backtrace();
  return message.substr(0, message.find('\n'));
}

bool starts_with_local_header(const MappedFile& map, std::size_t offset) {
  return offset + kLocalHeaderSize <= map.size() &&
         std::memcmp(
             map.data() + offset, kLocalHeaderSignature.data(), kLocalHeaderSignature.size()) == 0;
}

}  // namespace

ArchiveFile::ArchiveFile(const std::filesystem::path& path)
    : path_(path),
      map_(std::make_shared<const MappedFile>(path, MappedFile::Access::kCopyOnWrite)) {
  if (map_->size() == 0) {
    throw Error(ErrorCode::kCorrupt, path.string() + " is empty");
  }
  if (!starts_with_local_header(*map_, 0)) {
    throw Error(ErrorCode::kCorrupt,
                path.string() + " is not a zip archive, so it cannot be a .pt2");
  }
  try {
    reader_ = std::make_unique<caffe2::serialize::PyTorchStreamReader>(path.string());
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::kCorrupt,
                path.string() + " is truncated or not a PyTorch archive: " + first_line(error));
  }
}

ArchiveFile::~ArchiveFile() = default;

bool ArchiveFile::has(const std::string& record) const {
  return reader_->hasRecord(record);
}

std::vector<std::string> ArchiveFile::records() const {
  return reader_->getAllRecords();
}

std::vector<char> ArchiveFile::bytes(const std::string& record) const {
  if (!has(record)) {
    throw Error(ErrorCode::kCorrupt, path_.string() + " has no record " + record);
  }
  try {
    const auto [data, size] = reader_->getRecord(record);
    const char* begin = static_cast<const char*>(data.get());
    return {begin, begin + size};
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::kCorrupt,
                path_.string() + ": record " + record + " is damaged: " + first_line(error));
  }
}

std::string ArchiveFile::text(const std::string& record) const {
  const std::vector<char> content = bytes(record);
  return {content.begin(), content.end()};
}

c10::Storage ArchiveFile::read_storage(const std::string& record) const {
  const std::vector<char> content = bytes(record);
  c10::DataPtr memory = c10::GetCPUAllocator()->allocate(content.size());
  if (!content.empty()) {
    std::memcpy(memory.get(), content.data(), content.size());
  }
  return {c10::Storage::use_byte_size_t(), content.size(), std::move(memory)};
}

c10::Storage ArchiveFile::storage(const std::string& record, std::size_t alignment) const {
  if (!has(record)) {
    throw Error(ErrorCode::kCorrupt, path_.string() + " has no record " + record);
  }
  std::size_t header = 0;
  std::size_t offset = 0;
  std::size_t size = 0;
  try {
    header = reader_->getRecordHeaderOffset(record);
    offset = reader_->getRecordOffset(record);
    size = reader_->getRecordSize(record);
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::kCorrupt,
                path_.string() + ": record " + record + " is damaged: " + first_line(error));
  }
  if (!starts_with_local_header(*map_, header)) {
    throw Error(ErrorCode::kCorrupt, path_.string() + ": record " + record + " has no header");
  }
  std::uint16_t method = 0;
  std::memcpy(&method, map_->data() + header + kCompressionMethodOffset, sizeof method);
  if (method != 0 || size == 0 || offset % alignment != 0) {
    return read_storage(record);
  }
  if (offset > map_->size() || size > map_->size() - offset) {
    throw Error(ErrorCode::kCorrupt,
                path_.string() + ": record " + record + " lies outside the file");
  }
  auto* owner = new std::shared_ptr<const MappedFile>(map_);
  c10::DataPtr memory(
      map_->data() + offset,
      owner,
      [](void* context) { delete static_cast<std::shared_ptr<const MappedFile>*>(context); },
      c10::Device(c10::DeviceType::CPU));
  return {c10::Storage::use_byte_size_t(), size, std::move(memory)};
}

}  // namespace kiln::exporter
