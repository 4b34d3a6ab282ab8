#include "kiln/base/file_descriptor.hpp"

#include <fcntl.h>

#include <utility>

#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

bool is_open(int number) {
  return ::fcntl(number, F_GETFD) != -1;
}

TEST_CASE("a descriptor is closed with its owner", "[base][file_descriptor]") {
  int number = -1;
  {
    const FileDescriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    REQUIRE(file.open());
    number = file.number();
    CHECK(is_open(number));
  }
  CHECK_FALSE(is_open(number));
}

TEST_CASE("a moved descriptor is closed once", "[base][file_descriptor]") {
  FileDescriptor first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = first.number();
  FileDescriptor second(std::move(first));
  CHECK(second.number() == number);

  CHECK(second.close() == 0);
  CHECK_FALSE(second.open());
  CHECK_FALSE(is_open(number));
  CHECK(second.close() == 0);
}

TEST_CASE("a failed open owns nothing", "[base][file_descriptor]") {
  CHECK_FALSE(FileDescriptor(::open("/none/such", O_RDONLY | O_CLOEXEC)).open());
  CHECK_FALSE(FileDescriptor().open());
}

}  // namespace
}  // namespace kiln
