#include "kiln/autograd_cache/settings.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <string>

#include "kiln/base/error.hpp"
#include "kiln/base/log.hpp"

namespace kiln::autograd_cache {
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kDefaultLimit = std::uint64_t{10} << 30;
constexpr std::size_t kRandomSecret = 32;

// An empty variable is as good as none.
std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

bool is_on(const char* name, bool otherwise) {
  const std::string text = variable(name).value_or(otherwise ? "on" : "off");
  if (text != "on" && text != "off") {
    KILN_LOG(kWarning, "autograd-cache", name << "=" << text << " is neither on nor off");
    return otherwise;
  }
  return text == "on";
}

// The power of 1024 that a suffix stands for.
std::optional<unsigned> exponent_of(std::string_view suffix) {
  constexpr std::string_view kUnits = "kmgt";
  std::string unit;
  for (const char character : suffix) {
    unit +=
        static_cast<char>(character >= 'A' && character <= 'Z' ? character - 'A' + 'a' : character);
  }
  if (unit.empty() || unit == "b") {
    return 0;
  }
  const std::size_t position = kUnits.find(unit.front());
  const std::string_view rest = std::string_view(unit).substr(1);
  if (position == std::string_view::npos || (rest != "" && rest != "b" && rest != "ib")) {
    return std::nullopt;
  }
  return static_cast<unsigned>(position) + 1;
}

// A secret that nobody else has, and so refuses everything, in the place of the file `path`. The
// same for the life of the process: caches are told apart by their secrets.
std::string stand_in_for(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  std::string& secret = known[path];
  std::random_device random;
  while (secret.size() < kRandomSecret) {
    secret += static_cast<char>(random());
  }
  return secret;
}

}  // namespace

fs::path default_directory() {
  if (const auto directory = variable("KILN_CACHE_DIR")) {
    return *directory;
  }
  if (const auto directory = variable("XDG_CACHE_HOME")) {
    return fs::path(*directory) / "kiln";
  }
  if (const auto home = variable("HOME")) {
    return fs::path(*home) / ".cache" / "kiln";
  }
  std::error_code failure;
  const fs::path temporary = fs::temp_directory_path(failure);
  return (failure ? fs::path("/tmp") : temporary) / ("kiln-" + std::to_string(::geteuid()));
}

std::uint64_t default_limit() {
  const auto text = variable("KILN_CACHE_LIMIT");
  if (!text) {
    return kDefaultLimit;
  }
  const auto limit = parse_byte_count(*text);
  if (!limit) {
    KILN_LOG(kWarning,
             "autograd-cache",
             "KILN_CACHE_LIMIT=" << *text << " is not a size (try 500M or 10G)");
  }
  return limit.value_or(kDefaultLimit);
}

Mode default_mode() {
  const std::string text = variable("KILN_CACHE").value_or("write");
  if (text == "off") {
    return Mode::kOff;
  }
  if (text == "read") {
    return Mode::kRead;
  }
  if (text == "strict") {
    return Mode::kStrict;
  }
  if (text != "write") {
    KILN_LOG(kWarning,
             "autograd-cache",
             "KILN_CACHE=" << text << " is not a cache mode (off, read, write or strict)");
  }
  return Mode::kWrite;
}

Durability default_durability() {
  return is_on("KILN_CACHE_SYNC", true) ? Durability::kFlushed : Durability::kEventual;
}

bool default_allow_shared() {
  return is_on("KILN_CACHE_ALLOW_SHARED", false);
}

std::string default_remote() {
  return variable("KILN_CACHE_REMOTE").value_or("");
}

std::string default_secret() {
  if (const auto secret = variable("KILN_CACHE_SECRET")) {
    return *secret;
  }
  const auto path = variable("KILN_CACHE_SECRET_FILE");
  if (!path) {
    return {};
  }
  std::string secret;
  try {
    const std::string text = read_file(*path);
    secret = text.substr(0, text.find('\n'));
  } catch (const Error& failure) {
    KILN_LOG(kWarning, "autograd-cache", failure.what());
  }
  // Whoever asked for signatures must not get unsigned code because a file is missing.
  return secret.empty() ? stand_in_for(*path) : secret;
}

std::optional<std::uint64_t> parse_byte_count(std::string_view text) {
  std::uint64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, count);
  if (failure != std::errc()) {
    return std::nullopt;
  }
  const auto exponent = exponent_of({rest, static_cast<std::size_t>(end - rest)});
  if (!exponent || count > std::numeric_limits<std::uint64_t>::max() >> (10 * *exponent)) {
    return std::nullopt;
  }
  return count << (10 * *exponent);
}

}  // namespace kiln::autograd_cache
