// What the tests of the store and of the cache share.

#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/digest.hpp"

namespace kiln::autograd_cache {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Of the entry, where a test needs only one.
inline const Key kKey = KeyBuilder().add("graph", "g").build();

/// A cache on the disk alone, so that what is on the disk is what is seen.
inline CacheOptions options_for(const std::filesystem::path& directory, Mode mode = Mode::kWrite) {
  return {.directory = directory,
          .max_bytes = 1 << 20,
          .mode = mode,
          .durability = Durability::kEventual,
          .memory_bytes = 0,
          .remote = {},
          .secret = {}};
}

/// Makes `path` a new file with `bytes`: to shorten one that is there costs milliseconds.
inline void overwrite(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Every regular file below `root`.
inline std::vector<std::filesystem::path> files_below(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.is_regular_file()) {
      files.push_back(entry.path());
    }
  }
  return files;
}

/// The only file below `root / folder`.
inline std::filesystem::path only_file(const std::filesystem::path& root, const char* folder) {
  const auto files = files_below(root / folder);
  return files.size() == 1 ? files.front() : std::filesystem::path();
}

/// Bytes without any pattern that a compressor could use.
inline std::string noise(std::size_t size, std::string_view seed = "seed") {
  std::string bytes;
  Digest block = digest(seed);
  while (bytes.size() < size) {
    bytes.append(reinterpret_cast<const char*>(block.bytes.data()), block.bytes.size());
    block = digest(std::as_bytes(std::span(block.bytes)));
  }
  bytes.resize(size);
  return bytes;
}

/// Runs `work(i)` in `count` processes at once. Returns in how many it returned true.
inline int count_successful_processes(int count, const std::function<bool(int)>& work) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      bool good = false;
      try {
        good = work(i);
      } catch (...) {
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  int successful = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    successful += WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return successful;
}

}  // namespace kiln::autograd_cache
