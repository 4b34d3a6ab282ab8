#include "kiln/autograd_cache/key.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

using Components = std::vector<std::pair<std::string, std::string>>;

const Components kComponents = {{"graph", "add mul"},
                                {"inputs", "f32[2,3]"},
                                {"options", "isa=native"},
                                {"grad mode", "1"},
                                {"autocast", ""},
                                {"toolchain", "g++ 12"}};

Key key_of(const Components& components) {
  KeyBuilder builder;
  for (const auto& [name, bytes] : components) {
    builder.add(name, bytes);
  }
  return builder.build();
}

TEST_CASE("CA-05 a change of any byte of any component is another key", "[autograd-cache][key]") {
  const Key original = key_of(kComponents);
  std::set<Digest> digests = {original.digest()};
  std::size_t variations = 1;
  const auto check = [&](std::size_t i, auto change) {
    Components changed = kComponents;
    change(changed[i]);
    const Key key = key_of(changed);
    CHECK(key != original);
    digests.insert(key.digest());
    ++variations;
  };

  for (std::size_t i = 0; i < kComponents.size(); ++i) {
    check(i, [](auto& component) { component.second += '\0'; });
    check(i, [](auto& component) { component.second.insert(0, " "); });
    check(i, [](auto& component) { component.first += "x"; });
    for (std::size_t byte = 0; byte < kComponents[i].second.size(); ++byte) {
      check(i, [byte](auto& component) { component.second[byte] ^= 1; });
    }
  }

  CHECK(digests.size() == variations);
}

TEST_CASE("CA-05 a missing or an added component is another key", "[autograd-cache][key]") {
  const Key original = key_of(kComponents);
  for (std::size_t i = 0; i < kComponents.size(); ++i) {
    Components fewer = kComponents;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK(key_of(fewer) != original);
  }
  Components more = kComponents;
  more.emplace_back("device", "");
  CHECK(key_of(more) != original);
}

TEST_CASE("CA-05 two components that swap their bytes are another key", "[autograd-cache][key]") {
  CHECK(key_of({{"a", "1"}, {"b", "2"}}) != key_of({{"a", "2"}, {"b", "1"}}));
  CHECK(key_of({{"ab", "c"}}) != key_of({{"a", "bc"}}));
}

TEST_CASE("CA-05 the order of components does not matter", "[autograd-cache][key]") {
  const Components reversed(kComponents.rbegin(), kComponents.rend());
  CHECK(key_of(reversed) == key_of(kComponents));
  CHECK(key_of(reversed).components().front().name == "toolchain");
}

TEST_CASE("text and bytes make the same component", "[autograd-cache][key]") {
  CHECK(KeyBuilder().add("graph", "abc").build() ==
        KeyBuilder().add("graph", bytes_of("abc")).build());
}

TEST_CASE("a name may be used once", "[autograd-cache][key]") {
  const KeyBuilder builder = KeyBuilder().add("graph", "a").add("x", "").add("graph", "a");
  try {
    static_cast<void>(builder.build());
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInvalidArgument);
    CHECK_THAT(error.what(), testing::contains("graph"));
  }
}

TEST_CASE("a key says which component differs", "[autograd-cache][key]") {
  const Key original = key_of(kComponents);
  CHECK_FALSE(explain(original, key_of(kComponents)).has_value());

  Components changed = kComponents;
  changed[1].second = "f32[4,3]";
  changed[5].second = "g++ 13";
  CHECK(explain(original, key_of(changed)) == "inputs");
  CHECK(differences(original.components(), key_of(changed).components()) ==
        std::vector<Difference>{{"inputs", kComponents[1].second, "f32[4,3]"},
                                {"toolchain", kComponents[5].second, "g++ 13"}});

  Components more = kComponents;
  more.emplace_back("device", "cuda");
  CHECK(explain(original, key_of(more)) == "device");
  CHECK(explain(key_of(more), original) == "device");
}

TEST_CASE("a component shows its bytes where people can read them", "[autograd-cache][key]") {
  const Key key = KeyBuilder()
                      .add("short", "f32[2]")
                      .add("long", std::string(500, 'x'))
                      .add("binary", std::string("a\0b", 3))
                      .build();
  CHECK(key.find("short")->summary == "f32[2]");
  CHECK(key.find("long")->summary.empty());
  CHECK(key.find("binary")->summary.empty());
}

TEST_CASE("a key rebuilt from its components is the same key", "[autograd-cache][key]") {
  const Key original = key_of(kComponents);
  CHECK(Key(original.components()) == original);
  REQUIRE(original.find("graph") != nullptr);
  CHECK(original.find("graph")->digest == digest("add mul"));
  CHECK(original.find("none") == nullptr);
}

}  // namespace
}  // namespace kiln::autograd_cache
