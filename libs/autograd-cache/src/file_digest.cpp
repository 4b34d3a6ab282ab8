// What a file holds, without reading all of it each time: as in git's index, a file that is the
// same by its number, size and times is the same.

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <thread>

#include "byte_stream.hpp"
#include "cache_state.hpp"
#include "content_digest.hpp"
#include "kiln/base/error.hpp"

namespace kiln::autograd_cache {
namespace fs = std::filesystem;

namespace {

// To read less than this takes no longer than to look it up.
constexpr off_t kSmallest = 1 << 20;
// A file that was changed within one tick of the clock may change again and show the same time.
constexpr std::time_t kSettled = 3;
constexpr std::chrono::milliseconds kTick(20);

void write_time(ByteWriter& writer, const timespec& time) {
  writer.number(static_cast<std::uint64_t>(time.tv_sec));
  writer.number(static_cast<std::uint64_t>(time.tv_nsec));
}

// What tells this file, at this moment, from any other; `purpose` is what is known of it.
Digest stamp_of(std::string_view purpose, const fs::path& path, const struct stat& status) {
  ByteWriter writer;
  writer.text(purpose);
  writer.text(path.string());
  writer.number(static_cast<std::uint64_t>(status.st_dev));
  writer.number(static_cast<std::uint64_t>(status.st_ino));
  writer.number(static_cast<std::uint64_t>(status.st_size));
  write_time(writer, status.st_mtim);
  write_time(writer, status.st_ctim);
  return digest(writer.take());
}

}  // namespace

Digest Cache::digest_of_file(const fs::path& path) {
  std::error_code failure;
  const fs::path real = fs::canonical(path, failure);
  struct stat status{};
  if (failure || ::stat(real.c_str(), &status) != 0) {
    throw Error(ErrorCode::kIo, "cannot read " + path.string());
  }
  const bool worth_it = enabled() && status.st_size >= kSmallest;
  const Digest stamp = stamp_of("content", real, status);
  if (worth_it) {
    const auto known = state_->store->find(stamp);
    Digest content;
    if (known && known->bytes().size() == content.bytes.size()) {
      std::memcpy(content.bytes.data(), known->bytes().data(), content.bytes.size());
      return content;
    }
  }

  const std::optional<Digest> read = content_digest(real);
  if (!read) {
    throw Error(ErrorCode::kIo, "cannot read " + path.string());
  }
  const Digest content = *read;
  const std::time_t now = std::time(nullptr);
  if (worth_it && status.st_ctim.tv_sec + kSettled < now &&
      status.st_mtim.tv_sec + kSettled < now) {
    state_->store->put(stamp, std::as_bytes(std::span(content.bytes)));
  }
  return content;
}

void Cache::note_product(const fs::path& path, const Key& key) {
  // Past the tick of the clock in which it was written: a change after this shows another time.
  std::this_thread::sleep_for(kTick);
  std::error_code failure;
  const fs::path real = fs::canonical(path, failure);
  struct stat status{};
  if (state_->saves() && !failure && ::stat(real.c_str(), &status) == 0) {
    state_->store->put(stamp_of("product", real, status),
                       std::as_bytes(std::span(key.digest().bytes)));
  }
}

bool Cache::is_product(const fs::path& path, const Key& key) const {
  std::error_code failure;
  const fs::path real = fs::canonical(path, failure);
  struct stat status{};
  if (!enabled() || failure || ::stat(real.c_str(), &status) != 0) {
    return false;
  }
  const auto noted = state_->store->find(stamp_of("product", real, status));
  return noted && std::ranges::equal(noted->bytes(), std::as_bytes(std::span(key.digest().bytes)));
}

}  // namespace kiln::autograd_cache
