#include "mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "kiln/base/error.hpp"

namespace kiln::exporter {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw Error(ErrorCode::kIo,
              "cannot read " + path.string() + ": " + std::generic_category().message(errno));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    fail(path);
  }
  struct stat status{};
  void* memory = MAP_FAILED;
  const bool is_file = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  if (is_file && status.st_size > 0) {
    size_ = static_cast<std::size_t>(status.st_size);
    memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
  }
  const int error = errno;
  ::close(file);
  if (!is_file) {
    throw Error(ErrorCode::kIo, "cannot read " + path.string() + ": it is not a regular file");
  }
  if (size_ == 0) {
    throw Error(ErrorCode::kCorrupt, path.string() + " is empty");
  }
  if (memory == MAP_FAILED) {
    errno = error;
    fail(path);
  }
  data_ = static_cast<std::byte*>(memory);
}

MappedFile::~MappedFile() {
  ::munmap(data_, size_);
}

}  // namespace kiln::exporter
