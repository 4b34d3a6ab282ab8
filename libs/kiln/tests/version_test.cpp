#include "kiln/version.hpp"

#include <string>

#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

TEST_CASE("the version is the package's", "[kiln][version]") {
  CHECK(version() == KILN_EXPECTED_VERSION);
  CHECK(version() == std::to_string(KILN_VERSION_MAJOR) + "." + std::to_string(KILN_VERSION_MINOR) +
                         "." + std::to_string(KILN_VERSION_PATCH));
}

TEST_CASE("versions are compared as one number", "[kiln][version]") {
  static_assert(KILN_VERSION >= KILN_VERSION_MINOR * 100);
  static_assert(KILN_VERSION < (KILN_VERSION_MAJOR + 1) * 10000);
  static_assert(KILN_VERSION_MINOR < 100 && KILN_VERSION_PATCH < 100);
}

}  // namespace
}  // namespace kiln
