#include "content_digest.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <span>

#include "kiln/base/file_descriptor.hpp"

namespace kiln::autograd_cache {

std::optional<Digest> content_digest(const std::filesystem::path& path) {
  constexpr std::size_t kPiece = 256 << 10;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status{};
  if (!file.open() || ::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  const auto piece = std::make_unique_for_overwrite<std::byte[]>(kPiece);
  Hasher hasher;
  while (true) {
    const ssize_t count = ::read(file.number(), piece.get(), kPiece);
    if (count > 0) {
      hasher.update(std::span(piece.get(), static_cast<std::size_t>(count)));
    } else if (count == 0) {
      return hasher.finish();
    } else if (errno != EINTR) {
      return std::nullopt;
    }
  }
}

}  // namespace kiln::autograd_cache
