#include "size_ledger.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "byte_stream.hpp"
#include "file_lock.hpp"

namespace kiln::autograd_cache {

namespace {

// Nobody holds the lock for longer than one read and one write.
constexpr std::chrono::seconds kPatience(1);

using Bytes = std::array<std::byte, sizeof(std::uint64_t)>;

std::optional<std::uint64_t> read_sum(const FileLock& lock) {
  Bytes bytes{};
  if (::pread(lock.descriptor(), bytes.data(), bytes.size(), 0) !=
      static_cast<ssize_t>(bytes.size())) {
    return std::nullopt;
  }
  return load_little_endian<std::uint64_t>(bytes.data());
}

bool write_sum(const FileLock& lock, std::uint64_t sum) {
  Bytes bytes{};
  store_little_endian(sum, bytes.data());
  return ::pwrite(lock.descriptor(), bytes.data(), bytes.size(), 0) ==
         static_cast<ssize_t>(bytes.size());
}

}  // namespace

SizeLedger::SizeLedger(const std::filesystem::path& root) : path_(root / "size") {}

std::optional<std::uint64_t> SizeLedger::add(std::int64_t change) {
  const std::optional<FileLock> lock = FileLock::acquire(path_, kPatience);
  if (!lock) {
    return std::nullopt;
  }
  std::optional<std::uint64_t> sum = read_sum(*lock);
  if (sum && change != 0) {
    const std::uint64_t size = static_cast<std::uint64_t>(change < 0 ? -change : change);
    *sum = change > 0 ? *sum + size : *sum - std::min(*sum, size);
    if (!write_sum(*lock, *sum)) {
      return std::nullopt;
    }
  }
  return sum;
}

void SizeLedger::set(std::uint64_t sum) {
  if (const std::optional<FileLock> lock = FileLock::acquire(path_, kPatience)) {
    write_sum(*lock, sum);  // If it fails the next writer counts again.
  }
}

}  // namespace kiln::autograd_cache
