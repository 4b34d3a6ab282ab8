// Files outside the cache that it knows something of.

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "content_digest.hpp"
#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

namespace fs = std::filesystem;

Digest content_of(const std::string& text) {
  return content_digest(std::as_bytes(std::span(text)));
}

TEST_CASE("a large file's digest is one of its pieces' digests", "[autograd-cache][file_digest]") {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "library";
  constexpr std::size_t kPiece = 256 << 10;
  const std::size_t size = GENERATE(0, 1 << 20, (1 << 20) + 1, 5'000'000);
  std::string content = noise(size);
  write_file_atomically(file, content, Durability::kEventual);

  std::string pieces = "kiln: digests of pieces of 256 KiB";
  for (std::size_t shift = 0; shift < 64; shift += 8) {
    pieces += static_cast<char>(size >> shift);
  }
  for (std::size_t at = 0; at < size; at += kPiece) {
    const Digest piece = digest(std::string_view(content).substr(at, kPiece));
    pieces.append(piece.bytes.begin(), piece.bytes.end());
  }
  CHECK(content_of(content) == digest(size > 1 << 20 ? pieces : content));
  CHECK(content_digest(file) == content_of(content));
  if (size > 0) {
    const Digest before = content_of(content);
    content.back() ^= 1;
    CHECK(content_of(content) != before);
  }
}

TEST_CASE("CA-15 a file is known by its content, however it changes",
          "[autograd-cache][file_digest]") {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "archive";
  Cache cache(options_for(directory.path() / "cache"));
  const std::size_t size = GENERATE(100, 2'000'000);
  std::string content = noise(size);
  for (int round = 0; round < 20; ++round) {
    content[static_cast<std::size_t>(round)] ^= 1;
    if (round % 2 == 0) {
      write_file_atomically(file, content, Durability::kEventual);
    } else {
      std::ofstream(file, std::ios::binary) << content;  // In place: the same file, the same size.
    }
    CHECK(cache.digest_of_file(file) == content_of(content));
    CHECK(cache.digest_of_file(file) == content_of(content));
  }
  CHECK_THROWS_AS(cache.digest_of_file(directory.path() / "none"), Error);
}

TEST_CASE("a large file that has settled is read once", "[autograd-cache][file_digest]") {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "archive";
  const std::string content = noise(2'000'000);
  write_file_atomically(file, content);
  Cache cache(options_for(directory.path() / "cache"));
  CHECK(cache.digest_of_file(file) == content_of(content));
  CHECK(cache.stats().blobs == 0);  // It may still be being written.

  std::this_thread::sleep_for(std::chrono::milliseconds(4'100));
  CHECK(cache.digest_of_file(file) == content_of(content));
  CHECK(cache.stats().blobs == 1);
  CHECK(cache.digest_of_file(file) == content_of(content));
}

TEST_CASE("a product is one until it is changed, moved or made anew",
          "[autograd-cache][file_digest]") {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "product";
  write_file_atomically(file, "content");
  Cache cache(options_for(directory.path() / "cache"));
  CHECK_FALSE(cache.is_product(file, kKey));
  cache.note_product(file, kKey);
  CHECK(cache.is_product(file, kKey));
  CHECK_FALSE(cache.is_product(file, KeyBuilder().add("graph", "h").build()));

  switch (GENERATE(0, 1, 2)) {
    case 0: std::ofstream(file) << "c0ntent"; break;
    case 1: write_file_atomically(file, "content"); break;
    default: fs::remove(file);
  }
  CHECK_FALSE(cache.is_product(file, kKey));
}

}  // namespace
}  // namespace kiln::autograd_cache
