// Loading and unloading leaves nothing behind.

#include <fstream>
#include <iterator>

#include "affine.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/container_runtime/package.hpp"
#include "kiln/container_runtime/runner.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

namespace fs = std::filesystem;

struct Footprint {
  std::size_t resident_kb = 0;
  std::size_t mappings = 0;
  std::size_t descriptors = 0;
};

Footprint footprint() {
  Footprint result;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") {
      status >> result.resident_kb;
    }
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    ++result.mappings;
  }
  const fs::directory_iterator descriptors("/proc/self/fd");
  result.descriptors =
      static_cast<std::size_t>(std::distance(begin(descriptors), end(descriptors)));
  return result;
}

// True if nothing stayed between the two.
bool is_flat(const Footprint& first, const Footprint& last) {
  return last.descriptors <= first.descriptors && last.mappings <= first.mappings + 8 &&
         last.resident_kb <= first.resident_kb + 4096;
}

TEST_CASE("a thousand times loaded, run and unloaded, a model leaves nothing behind",
          "[container-runtime][soak]") {
  const TemporaryDirectory directory;
  const fs::path package = directory.path() / "affine.pt2";
  write_package(package, {.library = test_model("affine")});
  const TemporaryDirectory scratch;
  const char* before = std::getenv("TMPDIR");
  const std::string saved = before != nullptr ? before : "";
  setenv("TMPDIR", scratch.path().c_str(), 1);
  const at::Tensor x = at::ones({2, 4});
  Footprint first;
  Footprint last = footprint();

  // On a busy machine a worker of TBB may still be ending one load when the next asks for one, and
  // another is started; each keeps a stack and an arena of malloc. Their number is bounded, so the
  // process is flat sooner or later; with one mapping lost for each load it never is.
  for (int thousand = 0; thousand < 5 && !(thousand > 0 && is_flat(first, last)); ++thousand) {
    first = last;
    for (int i = 0; i < 1000; ++i) {
      Runner runner(package, {.instances = 2});
      REQUIRE(runner.run({x})[0].size(0) == 2);
      REQUIRE(runner.run_async({x}).get().size() == 1);
    }
    last = footprint();
  }

  if (saved.empty()) {
    unsetenv("TMPDIR");
  } else {
    setenv("TMPDIR", saved.c_str(), 1);
  }
  CHECK(last.descriptors <= first.descriptors);
  CHECK(last.mappings <= first.mappings + 8);
  CHECK(last.resident_kb <= first.resident_kb + 4096);
  CHECK(fs::is_empty(scratch.path()));
}

}  // namespace
}  // namespace kiln::container_runtime
