// What the cache itself costs: hits by tier, misses in a large store, saves, keys.

#include <benchmark/benchmark.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"

namespace kiln::autograd_cache {
namespace {

namespace fs = std::filesystem;

Key key_of(long number) {
  return KeyBuilder()
      .add("graph", std::to_string(number))
      .add("inputs", "f32[128, 768]")
      .add("target", "neon -mcpu=native")
      .build();
}

std::string library_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

struct Bench {
  TemporaryDirectory directory{"kiln-cache-benchmark"};

  CacheOptions options(Durability durability = Durability::kEventual) const {
    CacheOptions options;
    options.directory = directory.path() / "cache";
    options.mode = Mode::kWrite;
    options.durability = durability;
    options.remote = {};
    return options;
  }

  // An entry with a library of `bytes`.
  Entry entry(std::size_t bytes) const {
    const fs::path library = directory.path() / "library.so";
    write_file_atomically(library, library_bytes(bytes));
    return {.guards = "", .blobs = {{"metadata", "m"}}, .files = {{"library", library}}};
  }
};

void hit_in_memory(benchmark::State& state) {
  const Bench bench;
  Cache cache(bench.options());
  cache.put(key_of(0), bench.entry(static_cast<std::size_t>(state.range(0))));
  for (auto _ : state) {
    benchmark::DoNotOptimize(cache.find(key_of(0)));
  }
}
BENCHMARK(hit_in_memory)->Arg(1 << 20)->Unit(benchmark::kMicrosecond);

void hit_on_disk(benchmark::State& state) {
  const Bench bench;
  CacheOptions options = bench.options();
  options.memory_bytes = 0;
  Cache cache(options);
  cache.put(key_of(0), bench.entry(static_cast<std::size_t>(state.range(0))));
  for (auto _ : state) {
    benchmark::DoNotOptimize(cache.find(key_of(0)));
  }
}
BENCHMARK(hit_on_disk)->Arg(100 << 10)->Arg(1 << 20)->Arg(5 << 20)->Unit(benchmark::kMicrosecond);

void miss(benchmark::State& state) {
  const Bench bench;
  Cache cache(bench.options());
  for (long i = 0; i < state.range(0); ++i) {
    cache.put(key_of(i), {.guards = "", .blobs = {{"metadata", "m"}}, .files = {}});
  }
  long next = -1;
  for (auto _ : state) {
    benchmark::DoNotOptimize(cache.find(key_of(next--)));
  }
}
BENCHMARK(miss)->Arg(0)->Arg(100'000)->Unit(benchmark::kMicrosecond)->Iterations(2'000);

void explain_after_miss(benchmark::State& state) {
  const Bench bench;
  Cache cache(bench.options());
  for (long i = 0; i < 2'000; ++i) {
    cache.put(key_of(i), {});
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(cache.explain_quickly(key_of(-1)));
  }
}
BENCHMARK(explain_after_miss)->Unit(benchmark::kMicrosecond)->Iterations(200);

void save(benchmark::State& state, Durability durability) {
  const Bench bench;
  Cache cache(bench.options(durability));
  long next = 0;
  for (auto _ : state) {
    state.PauseTiming();
    std::string bytes = library_bytes(200 << 10);
    bytes[0] = static_cast<char>(++next);
    bytes[1] = static_cast<char>(next >> 8);
    const fs::path library = bench.directory.path() / "library.so";
    write_file_atomically(library, bytes, Durability::kEventual);
    state.ResumeTiming();
    cache.put(key_of(next), {.guards = "", .blobs = {}, .files = {{"library", library}}});
  }
}
BENCHMARK_CAPTURE(save, flushed, Durability::kFlushed)
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(100);
BENCHMARK_CAPTURE(save, not_flushed, Durability::kEventual)
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(100);

// Every process needs the same 20 entries: how many were made, and how many went wrong?
void sixteen_processes(benchmark::State& state) {
  constexpr int kProcesses = 16;
  constexpr int kKeys = 20;
  double compiles = 0;
  double errors = 0;
  for (auto _ : state) {
    const Bench bench;
    fs::create_directory(bench.directory.path() / "compiles");
    for (int process = 0; process < kProcesses; ++process) {
      if (::fork() == 0) {
        int wrong = 0;
        Cache cache(bench.options());
        for (int i = 0; i < kKeys; ++i) {
          const std::string expected = "entry " + std::to_string(i);
          const auto obtained = cache.obtain(key_of(i), {}, [&] {
            write_file_atomically(bench.directory.path() / "compiles" /
                                      (std::to_string(i) + "." + std::to_string(process)),
                                  "",
                                  Durability::kEventual);
            ::usleep(2'000);
            return Entry{.guards = "", .blobs = {{"metadata", expected}}, .files = {}};
          });
          wrong += obtained.entry.blobs.at("metadata") != expected;
        }
        ::_exit(wrong + static_cast<int>(cache.counters().corrupt + cache.counters().failed));
      }
    }
    int status = 0;
    while (::wait(&status) > 0) {
      errors += WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    for (const auto& file : fs::directory_iterator(bench.directory.path() / "compiles")) {
      compiles += file.is_regular_file();
    }
  }
  state.counters["compiles_per_key"] =
      benchmark::Counter(compiles / kKeys, benchmark::Counter::kAvgIterations);
  state.counters["errors"] = errors;
}
BENCHMARK(sixteen_processes)->Unit(benchmark::kMillisecond)->Iterations(3)->UseRealTime();

void key_of_graph(benchmark::State& state) {
  const std::string graph = library_bytes(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(KeyBuilder().add("graph", graph).add("isa", "neon").build());
  }
}
BENCHMARK(key_of_graph)->Arg(100 << 10)->Arg(1 << 20)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kiln::autograd_cache
