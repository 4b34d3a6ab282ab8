// A compiler of somebody else's: splits a joint graph and keeps its forward and backward in a
// cache.

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/autograd_cache/key.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/partitioner/partition.hpp"

namespace {

constexpr const char* kJoint = R"(graph g {
  input %x: f32[2] user grad
  input %tangent: f32[2] tangent
  %exp: f32[2] = aten.exp.default(%x)
  output %exp user
  output %exp gradient 0
})";

}  // namespace

int main(int, char** arguments) {
  using namespace kiln::autograd_cache;
  std::filesystem::remove_all(arguments[1]);
  const Key key = KeyBuilder().add("graph", kJoint).build();

  const auto split = kiln::partitioner::default_partition(kiln::ir::parse(kJoint));
  const std::string backward = kiln::ir::print(split.backward);
  Cache(CacheOptions{.directory = arguments[1], .mode = Mode::kWrite})
      .put(key, {.guards = "", .blobs = {{"backward", backward}}, .files = {}});

  Cache reopened(CacheOptions{.directory = arguments[1], .mode = Mode::kWrite});
  const std::optional<Entry> found = reopened.find(key);
  const bool is_right = found && found->blobs.at("backward") == backward;
  std::puts(is_right ? backward.c_str() : "the cache does not hold what was put into it");
  return is_right ? 0 : 1;
}
