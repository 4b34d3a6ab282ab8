#include "kiln/base/error.hpp"

#include <string>

#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

TEST_CASE("an error says its kind, its message and where it was thrown", "[base][error]") {
  const Error error(ErrorCode::kUnsupported, "no kernel for aten::nonesuch");

  CHECK(error.code() == ErrorCode::kUnsupported);
  CHECK(std::string(error.what()) == "unsupported: no kernel for aten::nonesuch");
  CHECK_THAT(error.where().file_name(), testing::contains("error_test.cpp"));
}

TEST_CASE("every code has a name of its own", "[base][error]") {
  for (int i = 1; i <= 6; ++i) {
    CHECK(std::string(to_string(static_cast<ErrorCode>(i))) != "unknown");
    for (int j = 1; j < i; ++j) {
      CHECK(std::string(to_string(static_cast<ErrorCode>(i))) !=
            to_string(static_cast<ErrorCode>(j)));
    }
  }
  CHECK(std::string(to_string(static_cast<ErrorCode>(7))) == "unknown");
}

TEST_CASE("a broken invariant is an internal error", "[base][error]") {
  CHECK_NOTHROW(ensure(true, "one is one"));
  try {
    ensure(false, "one is two");
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInternal);
    CHECK_THAT(error.what(), testing::contains("one is two"));
  }
}

}  // namespace
}  // namespace kiln
