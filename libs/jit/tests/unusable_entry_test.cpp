// Entries that are found and cannot be used, and programs that the cache cannot keep.

#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "function_cache.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/jit/cache_use.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

const auto twice = [](const Tensors& in) { return Tensors{in[0] * 2}; };

// The functions in the cache, each with a file in the place of its library that is intact and not a
// library.
void spoil(const Scratch& scratch) {
  const std::filesystem::path text = scratch.directory.path() / "text.so";
  write_file_atomically(text, "not a library");
  autograd_cache::CacheOptions opened;
  opened.directory = scratch.options.cache_directory;
  autograd_cache::Cache cache(opened);
  std::vector<std::pair<autograd_cache::Key, autograd_cache::Entry>> functions;
  for (const auto& summary : cache.list()) {
    const auto key = cache.stored_key(summary.key);
    REQUIRE(key.has_value());
    if (auto entry = cache.find(*key); entry && entry->blobs.at("name") == "function") {
      entry->files.at("inference/library") = text;
      functions.emplace_back(*key, std::move(*entry));
    }
  }
  REQUIRE(functions.size() == 1);
  cache.clear();
  for (const auto& [key, entry] : functions) {
    REQUIRE(cache.put(key, entry));
  }
}

TEST_CASE("CA-10 CA-18 a function that cannot be loaded is compiled anew, or an error if strict",
          "[jit][unusable_entry]") {
  const Scratch scratch("twice");
  const Tensors inputs = {torch::ones({3})};
  compile(twice, scratch.options)(inputs);
  spoil(scratch);

  const Function fast = compile(twice, scratch.options);
  CHECK(torch::equal(fast(inputs)[0], torch::full({3}, 2.0)));
  CHECK(origin(fast) == Origin::kTraced);
  CHECK(scratch.functions().size() == 1);  // The one that was just saved.

  spoil(scratch);
  ::setenv("KILN_CACHE", "strict", 1);
  CHECK_THROWS_WITH(compile(twice, scratch.options)(inputs), testing::contains("cannot be used"));
  ::unsetenv("KILN_CACHE");
}

TEST_CASE("CA-08 CA-10 a compiler of the program's own is a bypass, or an error if strict",
          "[jit][unusable_entry]") {
  Scratch scratch("interpreted");
  scratch.options.inference_compiler = autograd_dispatch::interpret;
  const Tensors inputs = {torch::ones({3})};
  CHECK(torch::equal(compile(twice, scratch.options)(inputs)[0], torch::full({3}, 2.0)));
  const auto cache = open_cache(scratch.options);
  REQUIRE(cache != nullptr);
  CHECK(cache->counters().bypass == 1);

  ::setenv("KILN_CACHE", "strict", 1);
  CHECK_THROWS_AS(compile(twice, scratch.options)(inputs), Error);
  ::unsetenv("KILN_CACHE");
}

}  // namespace
}  // namespace kiln
