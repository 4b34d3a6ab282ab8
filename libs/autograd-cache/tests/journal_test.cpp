#include "journal.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

Key journal_key(const std::string& graph) {
  return KeyBuilder().add("graph", graph).add("isa", "neon").build();
}

TEST_CASE("the last miss is remembered across processes", "[autograd-cache][journal]") {
  const TemporaryDirectory directory;
  {
    Cache cache(options_for(directory.path()));
    CHECK_FALSE(cache.last_miss().has_value());
    static_cast<void>(cache.find(journal_key("a long name that is overwritten by a shorter one")));
    static_cast<void>(cache.find(journal_key("g")));
  }
  const auto missed = Cache(options_for(directory.path())).last_miss();
  REQUIRE(missed.has_value());
  CHECK(*missed == journal_key("g"));
  CHECK(missed->find("graph")->summary == "g");
}

TEST_CASE("the journal stays small and keeps the latest", "[autograd-cache][journal]") {
  const TemporaryDirectory directory;
  const Journal journal(directory.path());
  constexpr int kSaves = 3'000;
  for (int i = 0; i < kSaves; ++i) {
    journal.remember_saved(journal_key(std::to_string(i)));
  }
  CHECK(std::filesystem::file_size(directory.path() / "recent-keys") < 70'000);
  const auto keys = journal.recently_saved();
  REQUIRE(keys.size() > 100);
  CHECK(keys.size() < kSaves);
  CHECK(Key(keys.back()) == journal_key(std::to_string(kSaves - 1)));
}

TEST_CASE("CA-18 a torn journal explains less and breaks nothing", "[autograd-cache][journal]") {
  const TemporaryDirectory directory;
  const Journal journal(directory.path());
  journal.remember_saved(journal_key("1"));
  const auto size = std::filesystem::file_size(directory.path() / "recent-keys");
  journal.remember_saved(journal_key("2"));
  const std::string good = read_file(directory.path() / "recent-keys");
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x40);
    overwrite(directory.path() / "recent-keys", bad);
    CHECK(journal.recently_saved().size() == (i < size ? 0 : 1));
    overwrite(directory.path() / "last-miss", std::string_view(bad).substr(0, size));
    CHECK(journal.last_miss().has_value() == (i >= size));
  }
}

TEST_CASE("CA-11 a cache that lives as long as its program counts too",
          "[autograd-cache][journal]") {
  const TemporaryDirectory directory;
  const pid_t child = ::fork();
  if (child == 0) {
    static Cache cache(options_for(directory.path()));
    static_cast<void>(cache.find(journal_key("g")));
    std::exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(Cache(options_for(directory.path())).totals().miss == 1);
}

TEST_CASE("CA-11 totals are those of all processes", "[autograd-cache][journal]") {
  const TemporaryDirectory directory;
  const int good = count_successful_processes(4, [&](int number) {
    Cache cache(options_for(directory.path()));
    static_cast<void>(cache.find(journal_key(std::to_string(number))));
    cache.put(journal_key(std::to_string(number)), {});
    cache.bypass("opaque closure");
    return cache.counters().saved == 1;
  });
  CHECK(good == 4);
  Cache cache(options_for(directory.path()));
  const Counters totals = cache.totals();
  CHECK(totals.miss == 4);
  CHECK(totals.saved == 4);
  CHECK(totals.bypass_reasons == std::map<std::string, std::uint64_t>{{"opaque closure", 4}});
  CHECK(cache.counters().miss == 0);

  overwrite(directory.path() / "totals", "nonsense");
  CHECK(cache.totals().miss == 0);
}

}  // namespace
}  // namespace kiln::autograd_cache
