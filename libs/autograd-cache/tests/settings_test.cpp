#include "kiln/autograd_cache/settings.hpp"

#include <cstdlib>
#include <optional>
#include <string>

#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::autograd_cache {
namespace {

// Sets a variable for the length of a test; without a value, unsets it.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) {
      before_ = before;
    }
    set(value);
  }
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) {
    if (value == nullptr) {
      ::unsetenv(name_);
    } else {
      ::setenv(name_, value, 1);
    }
  }

  const char* name_;
  std::optional<std::string> before_;
};

TEST_CASE("the directory comes from the first variable that is set", "[autograd-cache][settings]") {
  const Variable home("HOME", "/home/someone");
  const Variable xdg("XDG_CACHE_HOME", nullptr);
  const Variable kiln("KILN_CACHE_DIR", nullptr);
  CHECK(default_directory() == "/home/someone/.cache/kiln");

  const Variable xdg_set("XDG_CACHE_HOME", "/xdg");
  CHECK(default_directory() == "/xdg/kiln");

  const Variable kiln_set("KILN_CACHE_DIR", "/here");
  CHECK(default_directory() == "/here");

  const Variable kiln_empty("KILN_CACHE_DIR", "");
  CHECK(default_directory() == "/xdg/kiln");
}

TEST_CASE("without a home the directory is the user's own", "[autograd-cache][settings]") {
  const Variable home("HOME", nullptr);
  const Variable xdg("XDG_CACHE_HOME", nullptr);
  const Variable kiln("KILN_CACHE_DIR", nullptr);
  CHECK_THAT(default_directory().string(), testing::contains("/kiln-"));
}

TEST_CASE("sizes are read with and without a unit", "[autograd-cache][settings]") {
  CHECK(parse_byte_count("0") == 0);
  CHECK(parse_byte_count("1048576") == 1048576);
  CHECK(parse_byte_count("7B") == 7);
  CHECK(parse_byte_count("2k") == 2048);
  CHECK(parse_byte_count("500M") == 500ULL << 20);
  CHECK(parse_byte_count("10G") == 10ULL << 30);
  CHECK(parse_byte_count("10GB") == 10ULL << 30);
  CHECK(parse_byte_count("3TiB") == 3ULL << 40);
  for (const char* text : {"", "G", "-1", "1.5G", "1Q", "1GG", "1 G", "99999999999T", "1bi"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_byte_count(text).has_value());
  }
}

TEST_CASE("the limit is 10 GiB unless a size is given", "[autograd-cache][settings]") {
  const Variable unset("KILN_CACHE_LIMIT", nullptr);
  CHECK(default_limit() == 10ULL << 30);
  const Variable set("KILN_CACHE_LIMIT", "1G");
  CHECK(default_limit() == 1ULL << 30);
  const Variable wrong("KILN_CACHE_LIMIT", "much");
  CHECK(default_limit() == 10ULL << 30);
}

TEST_CASE("CA-17 the cache is on unless it is switched off", "[autograd-cache][settings]") {
  const Variable unset("KILN_CACHE", nullptr);
  CHECK(default_mode() == Mode::kWrite);
  const Variable off("KILN_CACHE", "off");
  CHECK(default_mode() == Mode::kOff);
  const Variable read("KILN_CACHE", "read");
  CHECK(default_mode() == Mode::kRead);
  const Variable strict("KILN_CACHE", "strict");
  CHECK(default_mode() == Mode::kStrict);
  const Variable wrong("KILN_CACHE", "on");
  CHECK(default_mode() == Mode::kWrite);
}

TEST_CASE("CA-19 the remote tier and how saves reach the disk come from outside",
          "[autograd-cache][settings]") {
  {
    const Variable remote("KILN_CACHE_REMOTE", nullptr);
    const Variable sync("KILN_CACHE_SYNC", nullptr);
    CHECK(default_remote().empty());
    CHECK(default_durability() == Durability::kFlushed);
  }
  const Variable remote("KILN_CACHE_REMOTE", "redis://host");
  const Variable sync("KILN_CACHE_SYNC", "off");
  CHECK(default_remote() == "redis://host");
  CHECK(default_durability() == Durability::kEventual);
}

TEST_CASE("a directory that others can write to is taken only where that is said",
          "[autograd-cache][settings]") {
  for (const char* text : {static_cast<const char*>(nullptr), "", "off", "yes"}) {
    const Variable shared("KILN_CACHE_ALLOW_SHARED", text);
    CHECK_FALSE(default_allow_shared());
  }
  const Variable shared("KILN_CACHE_ALLOW_SHARED", "on");
  CHECK(default_allow_shared());
}

TEST_CASE("CA-19 a secret that cannot be read is no reason to take unsigned code",
          "[autograd-cache][settings]") {
  const TemporaryDirectory directory;
  const std::string path = (directory.path() / "secret").string();
  const Variable none("KILN_CACHE_SECRET", nullptr);
  {
    const Variable file("KILN_CACHE_SECRET_FILE", nullptr);
    CHECK(default_secret().empty());
  }
  const Variable file("KILN_CACHE_SECRET_FILE", path.c_str());
  CHECK(default_secret().size() == 32);
  const std::string stand_in = default_secret();
  CHECK(default_secret() == stand_in);
  {
    const Variable other("KILN_CACHE_SECRET_FILE", (path + " 2").c_str());
    CHECK(default_secret() != stand_in);
  }
  write_file_atomically(path, "from a file\nand more");
  CHECK(default_secret() == "from a file");
  const Variable given("KILN_CACHE_SECRET", "given");
  CHECK(default_secret() == "given");
}

}  // namespace
}  // namespace kiln::autograd_cache
