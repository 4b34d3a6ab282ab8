#include "kiln/autograd_cache/identity.hpp"

#include "kiln/testing/catch2.hpp"

namespace kiln::autograd_cache {
namespace {

TEST_CASE("CA-08 an operator is known by what it or its library declared",
          "[autograd-cache][identity]") {
  CHECK_FALSE(identity_of("mylib::scale").has_value());
  declare_identity("mylib", "1");
  CHECK(identity_of("mylib::scale") == "1");
  declare_identity("mylib::scale", "2");
  CHECK(identity_of("mylib::scale") == "2");
  CHECK(identity_of("mylib::shift") == "1");
  CHECK_FALSE(identity_of("other::scale").has_value());
}

}  // namespace
}  // namespace kiln::autograd_cache
