#include "kiln/base/digest.hpp"

#include <string>
#include <unordered_set>

#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

TEST_CASE("a digest is the SHA-256 of its bytes", "[base][digest]") {
  // The examples of FIPS 180-2.
  CHECK(digest("").hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(digest("abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(digest(std::string(1'000'000, 'a')).hex() ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("pieces have the digest of the whole, and finish starts anew", "[base][digest]") {
  Hasher hasher;

  const Digest first = hasher.update("a").update("").update("bc").finish();
  const Digest second = hasher.update("abc").finish();

  CHECK(first == digest("abc"));
  CHECK(second == first);
}

TEST_CASE("a moved hasher goes on where it was", "[base][digest]") {
  Hasher hasher;
  hasher.update("ab");
  Hasher moved = std::move(hasher);
  CHECK(moved.update("c").finish() == digest("abc"));
}

TEST_CASE("hexadecimal text round-trips and nothing else is parsed", "[base][digest]") {
  const Digest value = digest("abc");
  CHECK(Digest::parse(value.hex()) == value);
  CHECK(Digest::parse(std::string(64, 'F'))->bytes[31] == 0xff);

  CHECK_FALSE(Digest::parse("").has_value());
  CHECK_FALSE(Digest::parse(std::string(63, '0')).has_value());
  CHECK_FALSE(Digest::parse(std::string(65, '0')).has_value());
  CHECK_FALSE(Digest::parse(std::string(63, '0') + "g").has_value());
}

TEST_CASE("digests can be keys", "[base][digest]") {
  const std::unordered_set<Digest> digests = {digest("a"), digest("b"), digest("a")};
  CHECK(digests.size() == 2);
  CHECK(digest("a") != digest("b"));
}

}  // namespace
}  // namespace kiln
