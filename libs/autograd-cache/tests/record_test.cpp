#include "kiln/autograd_cache/record.hpp"

#include <string>

#include "kiln/base/error.hpp"
#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

Record example() {
  return {.components = {{"graph", digest("g")}, {"a", digest("a")}},
          .guards = std::string("s0 == 4\0", 8),
          .blobs = {{"metadata", "m"}, {"empty", ""}, {"", "nameless"}},
          .files = {{"forward", {digest("f"), ".so"}}, {"backward", {digest("b")}}}};
}

bool is_corrupt(std::string_view bytes) {
  try {
    static_cast<void>(parse_record(bytes_of(bytes)));
    return false;
  } catch (const Error& error) {
    return error.code() == ErrorCode::kCorrupt;
  }
}

TEST_CASE("CA-01 a record round-trips", "[autograd-cache][record]") {
  CHECK(parse_record(bytes_of(serialize(example()))) == example());
  CHECK(parse_record(bytes_of(serialize({}))) == Record{});
}

TEST_CASE("equal records have equal bytes", "[autograd-cache][record]") {
  Record record = example();
  CHECK(serialize(record) == serialize(example()));
  record.guards += 'x';
  CHECK(serialize(record) != serialize(example()));
}

TEST_CASE("a record that ends too early or too late is corrupt", "[autograd-cache][record]") {
  const std::string bytes = serialize(example());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK(is_corrupt(std::string_view(bytes).substr(0, size)));
  }
  CHECK(is_corrupt(bytes + '\0'));
}

TEST_CASE("whatever byte is changed, a record is another one or corrupt",
          "[autograd-cache][record]") {
  const std::string bytes = serialize(example());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ change);
      if (!is_corrupt(changed)) {
        CHECK(serialize(parse_record(bytes_of(changed))) == changed);
      }
    }
  }
}

TEST_CASE("a record that asks for a file outside the store is corrupt",
          "[autograd-cache][record]") {
  for (const char* extension : {".s/o", "/../x", "..", ".", ".SO", "so", ".so/", ".aaaaaaaaaaaa"}) {
    Record record = example();
    record.files.at("forward").extension = extension;
    CHECK(is_corrupt(serialize(record)));
  }
}

TEST_CASE("a record with a component twice is corrupt", "[autograd-cache][record]") {
  Record record = example();
  record.components.push_back(record.components.front());
  CHECK(is_corrupt(serialize(record)));
}

}  // namespace
}  // namespace kiln::autograd_cache
