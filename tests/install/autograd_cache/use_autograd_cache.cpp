// Stores bytes and finds them again in a store that was opened anew.

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "kiln/autograd_cache/artifact_store.hpp"
#include "kiln/base/digest.hpp"

int main(int, char** arguments) {
  using kiln::autograd_cache::ArtifactStore;
  std::filesystem::remove_all(arguments[1]);
  const std::vector<std::byte> blob{std::byte{1}, std::byte{2}};
  const kiln::Digest key = kiln::digest(blob);

  ArtifactStore(arguments[1]).put(key, blob);

  const bool is_found = ArtifactStore(arguments[1]).find(key).has_value();
  std::printf("%s %s\n", key.hex().c_str(), is_found ? "was found" : "is lost");
  return is_found ? 0 : 1;
}
