// CA-13: one directory, many threads, many processes.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int kKeys = 8;

Key key_of(int number) {
  return KeyBuilder().add("graph", std::to_string(number)).build();
}

// What may stand under a key: its own number, many times over, and the writer's.
std::string content_of(int key, int writer) {
  return std::string(2'000 + 500 * static_cast<std::size_t>(writer), static_cast<char>('a' + key)) +
         std::to_string(writer);
}

bool is_content_of(int key, std::string_view content) {
  for (int writer = 0; writer < 10; ++writer) {
    if (content == content_of(key, writer)) {
      return true;
    }
  }
  return false;
}

// Reads and writes all keys for a while. Returns how often it saw something that nobody wrote.
int hammer(ArtifactStore& store, int writer, int rounds) {
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    const int key = (round + writer) % kKeys;
    if (round % 3 == 0) {
      const std::string content = content_of(key, writer);
      store.put(key_of(key).digest(), bytes_of(content));
    }
    if (const auto blob = store.find(key_of(key).digest())) {
      wrong += !is_content_of(key, blob->text());
    }
  }
  return wrong;
}

TEST_CASE("threads share a store", "[autograd-cache][concurrency]") {
  const TemporaryDirectory directory;
  ArtifactStore store(directory.path(), {.max_bytes = 12'000});  // So small that it must evict.
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 4; ++writer) {
    threads.emplace_back([&, writer] { wrong += hammer(store, writer, 150); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == 0);
  CHECK(store.counters().corrupt == 0);
  CHECK(store.counters().failed == 0);
  CHECK(store.writable());
}

TEST_CASE("processes share a store", "[autograd-cache][concurrency]") {
  const TemporaryDirectory directory;
  const int good = count_successful_processes(8, [&](int writer) {
    ArtifactStore store(directory.path(), {.max_bytes = 20'000});
    const int wrong = hammer(store, writer, 90);
    return wrong == 0 && store.counters().corrupt == 0 && store.counters().failed == 0;
  });
  CHECK(good == 8);
  CHECK(ArtifactStore(directory.path()).verify().removed == 0);
  for (const fs::path& path : files_below(directory.path())) {
    CHECK_FALSE(path.filename().string().starts_with(".kiln."));
  }
}

TEST_CASE("one process clears while others work", "[autograd-cache][concurrency]") {
  const TemporaryDirectory directory;
  const int good = count_successful_processes(4, [&](int writer) {
    ArtifactStore store(directory.path());
    if (writer == 0) {
      for (int i = 0; i < 30; ++i) {
        store.clear();
        std::this_thread::sleep_for(1ms);
      }
      return true;
    }
    return hammer(store, writer, 60) == 0 && store.writable();
  });
  CHECK(good == 4);
}

TEST_CASE("threads share a cache", "[autograd-cache][concurrency]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "model.so", "machine code");
  Cache cache(options_for(directory.path() / "cache"));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      const std::string guards = std::to_string(number);
      for (int round = 0; round < 20; ++round) {
        const Key key = key_of(round % 2);
        const auto same = [&](std::string_view stored) { return stored == guards; };
        if (!cache.find(key, same)) {
          cache.put(key,
                    {.guards = guards,
                     .blobs = {{"by", guards}},
                     .files = {{"forward", directory.path() / "model.so"}}});
        }
        const auto found = cache.find(key, same);
        wrong += !found || found->blobs.at("by") != guards ||
                 read_file(found->files.at("forward")) != "machine code";
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == 0);
  CHECK(cache.stats().variants == 8);
  CHECK(cache.stats().files == 1);
  CHECK(cache.counters().saved == 8);
  CHECK(cache.counters().hit == 4 * 40 - 8);
}

TEST_CASE("ten processes that need one entry compile it once", "[autograd-cache][concurrency]") {
  const TemporaryDirectory directory;
  fs::create_directory(directory.path() / "compiles");
  const int good = count_successful_processes(10, [&](int number) {
    Cache cache(options_for(directory.path() / "cache"));
    const Flight flight = cache.begin_flight(key_of(1));
    if (!flight.exclusive()) {
      return false;
    }
    if (!cache.find(key_of(1))) {
      write_file_atomically(directory.path() / "compiles" / std::to_string(number), "");
      std::this_thread::sleep_for(30ms);
      cache.put(key_of(1), {});
    }
    return cache.find(key_of(1)).has_value();
  });
  CHECK(good == 10);
  CHECK(files_below(directory.path() / "compiles").size() == 1);
  CHECK(files_below(directory.path() / "cache" / "flights").empty());
}

TEST_CASE("CA-15 sixteen processes that need the same entries make each once, without an error",
          "[autograd-cache][concurrency]") {
  constexpr int kProcesses = 16;
  const TemporaryDirectory directory;
  fs::create_directory(directory.path() / "compiles");
  const int good = count_successful_processes(kProcesses, [&](int number) {
    Cache cache(options_for(directory.path() / "cache"));
    for (int i = 0; i < kKeys; ++i) {
      const int key = (i + number) % kKeys;  // Not all of them in the same order.
      const auto obtained = cache.obtain(key_of(key), {}, [&] {
        const std::string name = std::to_string(key) + "." + std::to_string(number);
        write_file_atomically(directory.path() / "compiles" / name, "", Durability::kEventual);
        std::this_thread::sleep_for(2ms);
        return Entry{.guards = "", .blobs = {{"key", std::to_string(key)}}, .files = {}};
      });
      if (obtained.entry.blobs.at("key") != std::to_string(key)) {
        return false;
      }
    }
    const Counters counters = cache.counters();
    return counters.hit + counters.miss == kKeys && counters.corrupt + counters.failed == 0;
  });
  CHECK(good == kProcesses);
  CHECK(files_below(directory.path() / "compiles").size() == kKeys);
}

TEST_CASE("a flight is waited for no longer than asked", "[autograd-cache][concurrency]") {
  const TemporaryDirectory directory;
  Cache cache(options_for(directory.path()));
  {
    const Flight first = cache.begin_flight(key_of(1));
    CHECK(first.exclusive());
    CHECK_FALSE(cache.begin_flight(key_of(1), 5ms).exclusive());
    CHECK(cache.begin_flight(key_of(2), 5ms).exclusive());
  }
  CHECK(cache.begin_flight(key_of(1), 5ms).exclusive());
}

TEST_CASE("a writer killed at any time leaves a sound store", "[autograd-cache][concurrency]") {
  const TemporaryDirectory directory;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const pid_t child = ::fork();
    if (child == 0) {
      ArtifactStore store(directory.path(), {.max_bytes = 20'000});
      while (true) {
        hammer(store, 0, 3);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + attempt));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  ArtifactStore store(directory.path(), {.max_bytes = 20'000});
  CHECK(hammer(store, 1, 30) == 0);
  CHECK(store.verify().removed == 0);
  CHECK(store.counters().corrupt == 0);

  // What the killed ones left goes once it is old enough to be nobody's.
  for (const fs::path& path : files_below(directory.path())) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - 2h);
  }
  store.evict(0);
  CHECK(files_below(directory.path() / "blobs").empty());
}

}  // namespace
}  // namespace kiln::autograd_cache
