#include "kiln/ir/guard.hpp"

#include "kiln/base/error.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

TEST_CASE("guards are read, written and evaluated", "[ir][guard]") {
  const auto [text, printed, breaks] = GENERATE(
      table<std::string, std::string, std::int64_t>({{"s0 % 2 == 0", "Mod(s0, 2) == 0", 7},
                                                     {"s0 != 7", "s0 != 7", 7},
                                                     {"s0 > 7", "7 < s0", 7},
                                                     {"s0 >= 8", "8 <= s0", 7},
                                                     {"2*s0 + 1 < 15", "2*s0 + 1 < 15", 7},
                                                     {"s0 // 3 <= 1", "(s0//3) <= 1", 6}}));
  CAPTURE(text);
  const Guard guard = Guard::parse(text);

  CHECK(guard.to_string() == printed);
  CHECK(Guard::parse(guard.to_string()) == guard);
  CHECK_FALSE(guard.holds({{"s0", breaks}}));
}

TEST_CASE("guards hold where the relation does", "[ir][guard]") {
  CHECK(Guard::parse("s0 % 2 == 0").holds({{"s0", 8}}));
  CHECK(Guard::parse("s0 != 7").holds({{"s0", 8}}));
  CHECK(Guard::parse("s0 > s1").holds({{"s0", 8}, {"s1", 7}}));
  CHECK_FALSE(Guard::parse("s0 > s1").holds({{"s0", 8}, {"s1", 8}}));
  CHECK(Guard::parse("s0 >= s1").holds({{"s0", 8}, {"s1", 8}}));
  CHECK(Guard::parse("s0 <= s1").holds({{"s0", 8}, {"s1", 8}}));
}

TEST_CASE("what is no guard is refused", "[ir][guard]") {
  CHECK_THROWS_AS(Guard::parse("s0 + 1"), Error);
  CHECK_THROWS_AS(Guard::parse("s0 < "), Error);
}

}  // namespace
}  // namespace kiln::ir
