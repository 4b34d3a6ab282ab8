#include "mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "kiln/base/error.hpp"

namespace kiln::container_runtime {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status{};
  const bool known = descriptor >= 0 && fstat(descriptor, &status) == 0;
  size_ = known ? static_cast<std::size_t>(status.st_size) : 0;
  if (size_ != 0) {
    data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  }
  const int reason = errno;
  if (descriptor >= 0) {
    close(descriptor);
  }
  if (!known || data_ == MAP_FAILED) {
    throw Error(ErrorCode::kIo, path.string() + " cannot be read: " + std::strerror(reason));
  }
}

MappedFile::~MappedFile() {
  if (size_ != 0) {
    munmap(data_, size_);
  }
}

}  // namespace kiln::container_runtime
