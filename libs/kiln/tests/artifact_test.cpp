// What lies beside a library that was compiled.

#include <torch/torch.h>

#include <filesystem>

#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/kiln.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using testing::contains;

ExportedProgram sine() {
  return export_program([](const Tensors& in) { return Tensors{in[0].sin()}; }, {torch::ones({3})});
}

TEST_CASE("a library does not keep the calls of the one that it replaces", "[kiln][artifact]") {
  const TemporaryDirectory folder;
  const auto library = folder.path() / "f.so", nodes = folder.path() / "f.json";
  write_file_atomically(nodes, "{\"nodes\": [{\"name\": \"old\", \"node\": {}}]}\n");

  aot_compile(sine(), library, uncached());

  CHECK_FALSE(std::filesystem::exists(nodes));
  const torch::Tensor x = torch::ones({3});
  CHECK(torch::allclose(load(library).run({x})[0], x.sin()));
}

TEST_CASE("a file of somebody else where loaders look is neither read nor removed",
          "[kiln][artifact]") {
  const TemporaryDirectory folder;
  const auto library = folder.path() / "f.so", settings = folder.path() / "f.json";
  // The second is as other compilers write their graphs.
  const std::string text = GENERATE(R"({"colour": "red"})", R"({"nodes": [{"op": "add"}]})");
  write_file_atomically(settings, text);

  CHECK_THROWS_WITH(aot_compile(sine(), library, uncached()), contains("move it"));

  CHECK(read_file(settings) == text);
  CHECK_FALSE(std::filesystem::exists(library));
}

}  // namespace
}  // namespace kiln
