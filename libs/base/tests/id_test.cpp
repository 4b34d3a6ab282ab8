#include "kiln/base/id.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <unordered_set>

#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

struct Node;
struct Value;

TEST_CASE("an id keeps its index", "[base][id]") {
  CHECK(Id<Node>(7).index() == 7);
  CHECK(Id<Node>(std::size_t{8}).index() == 8);
  CHECK(Id<Node>(std::uint32_t{9}).index() == 9);
  CHECK(Id<Node>(0).valid());
}

TEST_CASE("a default id names nothing", "[base][id]") {
  CHECK_FALSE(Id<Node>().valid());
  CHECK(Id<Node>() != Id<Node>(0));
}

TEST_CASE("ids of one kind are ordered and hashed by index", "[base][id]") {
  CHECK(Id<Node>(1) < Id<Node>(2));
  CHECK(Id<Node>(1) == Id<Node>(1));
  const std::unordered_set<Id<Node>> ids = {Id<Node>(1), Id<Node>(2), Id<Node>(1)};
  CHECK(ids.size() == 2);
}

TEST_CASE("an id is no number and no id of another kind", "[base][id]") {
  STATIC_REQUIRE_FALSE(std::is_convertible_v<int, Id<Node>>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<Id<Node>, int>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<Id<Node>, Id<Value>>);
}

}  // namespace
}  // namespace kiln
