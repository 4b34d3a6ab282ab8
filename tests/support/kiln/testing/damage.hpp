// Files that are damaged by a seed, for tests that say: it loads, or it is an `Error`.

#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace kiln::testing {

/// The number that the environment variable `name` has.
inline std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

/// A size that was damaged may be any number: no more memory than `beyond` what is in use is there
/// to be had.
class MemoryLimit {
 public:
  explicit MemoryLimit(rlim_t beyond) {
    getrlimit(RLIMIT_AS, &before_);
    std::ifstream statistics("/proc/self/statm");
    rlim_t pages = 0;
    statistics >> pages;
    rlimit limit = before_;
    limit.rlim_cur = pages * 4096 + beyond;
    setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_ = {};
};

/// What one seed does to a text or to bytes.
class Damage {
 public:
  explicit Damage(std::uint64_t seed) : engine_(seed) {}

  /// A number below `limit`.
  std::size_t below(std::size_t limit) {
    return limit == 0 ? 0 : static_cast<std::size_t>(engine_() % limit);
  }

  /// One to three changes.
  std::string operator()(std::string text) {
    for (std::size_t i = 0, changes = 1 + below(3); i < changes && !text.empty(); ++i) {
      change(text);
    }
    return text;
  }

 private:
  void change(std::string& text) {
    const std::size_t at = below(text.size());
    const std::size_t length = 1 + below(std::min<std::size_t>(24, text.size() - at));
    switch (below(6)) {
      case 0: text[at] = static_cast<char>(text[at] ^ (1 << below(8))); break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(below(text.size()), text.substr(at, length)); break;
      case 3: number(text, at); break;
      case 4: word(text, at); break;
      default: text.resize(at); break;
    }
  }

  void number(std::string& text, std::size_t from) {
    static const std::vector<std::string> kNumbers = {
        "-1", "0", "1", "3", "4096", "2147483648", "-9223372036854775808", "1e400", "null"};
    const std::size_t begin = text.find_first_of("0123456789", from);
    if (begin == std::string::npos) {
      return;
    }
    const std::size_t end = text.find_first_not_of("0123456789", begin);
    text.replace(
        begin, end == std::string::npos ? end : end - begin, kNumbers[below(kNumbers.size())]);
  }

  // One quoted word in the place of another.
  void word(std::string& text, std::size_t from) {
    const auto quoted = [&](std::size_t start) {
      const std::size_t begin = text.find('"', start);
      const std::size_t end = begin == std::string::npos ? begin : text.find('"', begin + 1);
      return end == std::string::npos ? std::pair<std::size_t, std::size_t>(0, 0)
                                      : std::pair(begin, end + 1 - begin);
    };
    const auto [begin, length] = quoted(from);
    const auto [other, size] = quoted(below(text.size()));
    text.replace(begin, length, text.substr(other, size));
  }

  std::mt19937_64 engine_;
};

}  // namespace kiln::testing
