#include "kiln/ir/guard.hpp"

#include "kiln/base/error.hpp"
#include "kiln/ir/canonical.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/ir/json.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/specialize.hpp"
#include "kiln/ir/verify.hpp"
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

std::string guarded(const std::string& guard) {
  return "graph g {\n  symbol %s0 in [2, 64]\n  symbol %s1 in [2, 64]\n  guard \"" + guard +
         "\"\n  input %x: f32[s0, s1] user\n  %y: f32[s0, s1] = aten.relu.default(%x)\n"
         "  output %y user\n}\n";
}

TEST_CASE("a graph keeps its guards as text, in JSON and through passes", "[ir][guard]") {
  const Graph graph = parse(guarded("s0 < s1"));
  const std::vector<Guard> expected = {Guard::parse("s0 < s1")};
  REQUIRE(graph.guards() == expected);

  CHECK(parse(print(graph)).guards() == expected);
  CHECK(from_json(to_json(graph)).guards() == expected);
  CHECK(remove_dead_code(graph).guards() == expected);
}

TEST_CASE("graphs that differ in a guard are not the same", "[ir][guard]") {
  const auto bytes = [](const std::string& guard) {
    return canonical_bytes(parse(guarded(guard)), {});
  };
  CHECK(bytes("s0 < s1") == bytes("s0 < s1"));
  CHECK(bytes("s0 < s1") != bytes("s0 <= s1"));
}

TEST_CASE("guards follow symbols that are given values", "[ir][guard]") {
  const Graph one = specialize(parse(guarded("s0 < s1")), {{"s0", 3}});
  CHECK(one.guards() == std::vector<Guard>{Guard::parse("3 < s1")});
  CHECK_NOTHROW(verify(one));

  CHECK(specialize(one, {{"s1", 8}}).guards().empty());
}

TEST_CASE("bad guards of a graph are named with their place", "[ir][guard]") {
  CHECK_THROWS_WITH(parse(guarded("s0 + 1")), testing::contains("a relation between two sizes"));
  CHECK_THROWS_WITH(verify(parse(guarded("s0 < other"))),
                    testing::contains("a guard mentions 'other'"));
  std::string json = to_json(parse(guarded("s0 < s1")));
  json.replace(json.find("s0 < s1"), 7, "s0 s1");
  CHECK_THROWS_WITH(from_json(json),
                    testing::contains("guards[0]: expected a relation between two sizes"));
}

}  // namespace
}  // namespace kiln::ir
