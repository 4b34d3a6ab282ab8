#include "content_digest.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "byte_stream.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file_descriptor.hpp"

namespace kiln::autograd_cache {
namespace {

constexpr std::size_t kLargestWhole = 1 << 20;
constexpr std::size_t kPiece = 256 << 10;
constexpr std::string_view kMark = "kiln: digests of pieces of 256 KiB";
// More of them would wait for memory.
constexpr std::size_t kMostThreads = 4;

// Digests one piece; false if it cannot be read.
using DigestPiece = std::function<bool(std::size_t piece, Digest& digest)>;

bool digest_pieces(std::vector<Digest>& digests, const DigestPiece& digest_piece) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> complete = true;
  const auto work = [&] {
    for (std::size_t i = 0; complete && (i = next++) < digests.size();) {
      try {
        complete = complete && digest_piece(i, digests[i]);
      } catch (const std::exception&) {
        complete = false;
      }
    }
  };
  const std::size_t threads =
      std::min<std::size_t>(kMostThreads, std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::jthread> helpers;
  try {
    while (helpers.size() + 1 < threads) {
      helpers.emplace_back(work);
    }
  } catch (const std::system_error&) {
    // No more threads: those there are do it.
  }
  work();
  helpers.clear();
  return complete;
}

std::optional<Digest> digest_by_pieces(std::size_t size, const DigestPiece& digest_piece) {
  std::vector<Digest> digests((size + kPiece - 1) / kPiece);
  if (!digest_pieces(digests, digest_piece)) {
    return std::nullopt;
  }
  ByteWriter writer;
  writer.raw(kMark);
  writer.number<std::uint64_t>(size);
  for (const Digest& piece : digests) {
    writer.digest(piece);
  }
  return digest(writer.take());
}

// Reads `bytes.size()` bytes at `offset`; false if there are fewer.
bool read_at(const FileDescriptor& file, std::size_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pread(file.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count == 0 || (count < 0 && errno != EINTR)) {
      return false;
    }
    const std::size_t read = count < 0 ? 0 : static_cast<std::size_t>(count);
    bytes = bytes.subspan(read);
    offset += read;
  }
  return true;
}

}  // namespace

Digest content_digest(std::span<const std::byte> bytes) {
  const auto digest_piece = [&](std::size_t piece, Digest& result) {
    const std::size_t begin = piece * kPiece;
    result = digest(bytes.subspan(begin, std::min(kPiece, bytes.size() - begin)));
    return true;
  };
  const std::optional<Digest> result =
      bytes.size() <= kLargestWhole ? digest(bytes) : digest_by_pieces(bytes.size(), digest_piece);
  ensure(result.has_value(), "bytes in memory can be digested");
  return *result;
}

std::optional<Digest> content_digest(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status{};
  if (!file.open() || ::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  const auto digest_part = [&](std::size_t begin, std::size_t count, Digest& result) {
    const auto part = std::make_unique_for_overwrite<std::byte[]>(count);
    const std::span bytes(part.get(), count);
    if (!read_at(file, begin, bytes)) {
      return false;
    }
    result = digest(std::span<const std::byte>(bytes));
    return true;
  };
  if (size <= kLargestWhole) {
    Digest whole;
    return digest_part(0, size, whole) ? std::optional(whole) : std::nullopt;
  }
  return digest_by_pieces(size, [&](std::size_t piece, Digest& result) {
    const std::size_t begin = piece * kPiece;
    return digest_part(begin, std::min(kPiece, size - begin), result);
  });
}

}  // namespace kiln::autograd_cache
