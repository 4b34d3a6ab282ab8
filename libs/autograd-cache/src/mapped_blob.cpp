#include "kiln/autograd_cache/mapped_blob.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "kiln/base/file_descriptor.hpp"

namespace kiln::autograd_cache {

std::optional<MappedBlob> MappedBlob::map(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status{};
  if (!file.open() || ::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) {
    return MappedBlob(nullptr, {});  // mmap(2) refuses these.
  }

  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (address == MAP_FAILED) {
    return std::nullopt;
  }
  std::shared_ptr<const void> owner(
      address, [size](const void* mapped) { ::munmap(const_cast<void*>(mapped), size); });
  return MappedBlob(std::move(owner), {static_cast<const std::byte*>(address), size});
}

}  // namespace kiln::autograd_cache
