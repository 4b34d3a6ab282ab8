#include "seal.hpp"

#include <string>

#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

TEST_CASE("CA-19 signatures are those of RFC 4231", "[autograd-cache][seal]") {
  CHECK(authenticate(std::string(20, '\x0b'), "Hi There").hex() ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(authenticate("Jefe", "what do ya want for nothing?").hex() ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(authenticate(std::string(131, '\xaa'),
                     "Test Using Larger Than Block-Size Key - Hash Key First")
            .hex() == "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("CA-19 what was sealed is opened with the same secret and for the same purpose",
          "[autograd-cache][seal]") {
  const std::string sealed = seal("name", bytes_of("machine code"), "secret");
  CHECK(unseal("name", sealed, "secret") == "machine code");
  CHECK_FALSE(unseal("name", sealed, "other").has_value());
  CHECK_FALSE(unseal("another", sealed, "secret").has_value());
  CHECK_FALSE(unseal("name", seal("name", bytes_of("machine code"), ""), "secret").has_value());
  // Whoever set no secret asks for no signature.
  CHECK(unseal("name", sealed, "") == "machine code");
}

TEST_CASE("CA-19 a flipped bit in any byte breaks the seal", "[autograd-cache][seal]") {
  const std::string sealed = seal("name", bytes_of("machine code"), "secret");
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string bad = sealed;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    CHECK_FALSE(unseal("name", bad, "secret").has_value());
  }
  for (std::size_t size = 0; size < sealed.size(); ++size) {
    CHECK_FALSE(unseal("name", std::string_view(sealed).substr(0, size), "secret").has_value());
  }
}

}  // namespace
}  // namespace kiln::autograd_cache
