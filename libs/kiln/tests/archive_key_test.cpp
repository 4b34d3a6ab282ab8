#include "archive_key.hpp"

#include <set>

#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

TEST_CASE("CA-05 whatever an archive is compiled with is in its key", "[kiln][archive_key]") {
  const codegen::Options generator;
  const CompileOptions original;
  CompileOptions for_cpu, many, named;
  for_cpu.device = "cpu";  // Unlike no device at all, which is the archive's own.
  many.instances = original.instances + 1;
  named.identity = "model 2";
  const auto key = [&](const CompileOptions& options, const char* archive = "a") {
    return key_of_archive(digest(archive), options, generator, ir::DeviceType::kCpu).digest();
  };
  const std::set<Digest> keys = {
      key(original), key(for_cpu), key(many), key(named), key(original, "b")};
  CHECK(keys.size() == 5);
}

}  // namespace
}  // namespace kiln
