#include "kiln/autograd_cache/mapped_blob.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "kiln/base/file_descriptor.hpp"
#include "kiln/base/mapped_file.hpp"

namespace kiln::autograd_cache {

namespace {

// Where another machine may remove a file, its mapped pages go with it, and to touch one then ends
// the process. NFS, SMB and FUSE are known by their numbers (statfs(2)); so are Lustre and Ceph.
bool can_vanish(const FileDescriptor& file) {
  constexpr std::array<unsigned long, 8> kRemote = {
      0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x65735546, 0x0bd00bd0, 0x00c36400, 0x01021997};
  struct statfs system{};
  return ::fstatfs(file.number(), &system) != 0 ||
         std::find(kRemote.begin(), kRemote.end(), static_cast<unsigned long>(system.f_type)) !=
             kRemote.end();
}

std::optional<MappedBlob> copy_of(const FileDescriptor& file, std::size_t size) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(size);
  std::size_t read = 0;
  while (read < size) {
    const ssize_t count = ::read(file.number(), bytes->data() + read, size - read);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return std::nullopt;
    }
    read += static_cast<std::size_t>(count);
  }
  return MappedBlob(bytes, *bytes);
}

}  // namespace

std::optional<MappedBlob> MappedBlob::map(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status{};
  if (!file.open() || ::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) {
    return MappedBlob(nullptr, {});
  }

  if (can_vanish(file)) {
    return copy_of(file, size);
  }

  std::optional<MappedFile> mapped = MappedFile::map(file, size);
  if (!mapped) {
    return std::nullopt;
  }
  const auto owner = std::make_shared<const MappedFile>(std::move(*mapped));
  return MappedBlob(owner, owner->bytes());
}

}  // namespace kiln::autograd_cache
