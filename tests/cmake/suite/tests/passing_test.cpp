#include "kiln/testing/catch2.hpp"

TEST_CASE("a file that is passing", "[suite]") {
  CHECK(true);
}
