#include "size_ledger.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <limits>

#include "byte_stream.hpp"
#include "file_lock.hpp"

namespace kiln::autograd_cache {

namespace {

// A store is counted within that time; otherwise a lock is held for one read and one write.
constexpr std::chrono::seconds kPatience(1);

constexpr std::size_t kNumber = sizeof(std::uint64_t);
// No disk holds more, and a change down to nothing fits into its type.
constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();

using Bytes = std::array<std::byte, 2 * kNumber>;

std::optional<std::uint64_t> read_sum(const FileLock& lock) {
  Bytes bytes{};
  if (::pread(lock.descriptor(), bytes.data(), bytes.size(), 0) !=
      static_cast<ssize_t>(bytes.size())) {
    return std::nullopt;
  }
  const auto sum = load_little_endian<std::uint64_t>(bytes.data());
  const auto complement = load_little_endian<std::uint64_t>(bytes.data() + kNumber);
  return sum == ~complement && sum <= kLargest ? std::optional(sum) : std::nullopt;
}

void write_sum(const FileLock& lock, std::uint64_t sum) {
  Bytes bytes{};
  store_little_endian(sum, bytes.data());
  store_little_endian(~sum, bytes.data() + kNumber);
  const bool is_written = ::pwrite(lock.descriptor(), bytes.data(), bytes.size(), 0) ==
                          static_cast<ssize_t>(bytes.size());
  // No sum is better than one from before.
  if (!is_written && ::ftruncate(lock.descriptor(), 0) != 0) {
    return;
  }
}

// Never below nothing, nor beyond what a ledger holds.
std::uint64_t with_change(std::uint64_t sum, std::int64_t change) {
  if (change < 0) {
    return sum - std::min(sum, std::uint64_t{0} - static_cast<std::uint64_t>(change));
  }
  return sum + std::min(kLargest - sum, static_cast<std::uint64_t>(change));
}

}  // namespace

SizeLedger::SizeLedger(const std::filesystem::path& root) : path_(root / "size") {}

std::uint64_t SizeLedger::add(std::int64_t change, const Count& count) {
  const std::optional<FileLock> lock = FileLock::acquire(path_, kPatience);
  if (!lock) {
    return count();
  }
  const std::optional<std::uint64_t> known = read_sum(*lock);
  const std::uint64_t sum = known ? with_change(*known, change) : count();
  write_sum(*lock, sum);
  return sum;
}

std::optional<std::uint64_t> SizeLedger::read() const {
  const std::optional<FileLock> lock = FileLock::acquire(path_, kPatience);
  return lock ? read_sum(*lock) : std::nullopt;
}

void SizeLedger::recount(const Count& count) {
  if (const std::optional<FileLock> lock = FileLock::acquire(path_, kPatience)) {
    write_sum(*lock, count());
  }
}

}  // namespace kiln::autograd_cache
