#include "kiln/base/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& why) {
  throw Error(ErrorCode::kIo, "cannot read " + path.string() + ": " + why);
}

}  // namespace

std::optional<MappedFile> MappedFile::map(const FileDescriptor& file,
                                          std::size_t size,
                                          Access access) {
  MappedFile result;
  if (size == 0) {
    return result;  // mmap(2) refuses these.
  }
  // A copy of every page is not reserved in advance: few are written.
  const bool is_writable = access == Access::kCopyOnWrite;
  void* const memory = ::mmap(nullptr,
                              size,
                              is_writable ? PROT_READ | PROT_WRITE : PROT_READ,
                              is_writable ? MAP_PRIVATE | MAP_NORESERVE : MAP_PRIVATE,
                              file.number(),
                              0);
  if (memory == MAP_FAILED) {
    return std::nullopt;
  }
  result.data_ = static_cast<std::byte*>(memory);
  result.size_ = size;
  return result;
}

MappedFile::MappedFile(const std::filesystem::path& path, Access access) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!file.open() || ::fstat(file.number(), &status) != 0) {
    fail(path, std::generic_category().message(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    fail(path, "it is not a regular file");
  }
  std::optional<MappedFile> mapped = map(file, static_cast<std::size_t>(status.st_size), access);
  if (!mapped) {
    fail(path, std::generic_category().message(errno));
  }
  *this = std::move(*mapped);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (size_ != 0) {
    ::munmap(data_, size_);
  }
}

}  // namespace kiln
