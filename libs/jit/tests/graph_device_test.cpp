#include "graph_device.hpp"

#include <string>

#include "kiln/base/error.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

using testing::contains;

GraphDevice device_of(const std::string& body) {
  return device_of_graph(ir::parse("graph g {\n" + body + "}"));
}

TEST_CASE("a graph of one GPU takes numbers of the CPU", "[jit][device]") {
  const GraphDevice device = device_of(R"(
    input %a: f32[] user
    input %x: f32[4] cuda:1 user
    input %b: i64[] constant
    %c: f32[] = aten.add.Tensor(%a, %b, 1)
    %y: f32[4] cuda:1 = aten.mul.Tensor(%x, %c)
    output %y user
)");

  CHECK(device.name == "cuda:1");
  CHECK(device.numbers == std::vector<std::uint32_t>{0, 2});
}

TEST_CASE("a graph of the CPU has no numbers to bring elsewhere", "[jit][device]") {
  const GraphDevice device = device_of(R"(
    input %a: f32[] user
    %y: f32[] = aten.exp.default(%a)
    output %y user
)");

  CHECK(device.name.empty());
  CHECK(device.numbers.empty());
}

TEST_CASE("a graph of several devices is refused by name", "[jit][device]") {
  const auto refusal = [](const std::string& body) {
    try {
      static_cast<void>(device_of(body));
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kUnsupported);
      return std::string(error.what());
    }
    return std::string();
  };

  CHECK_THAT(refusal(R"(
    input %x: f32[4] cuda:0 user
    input %y: f32[4] cuda:1 user
    %z: f32[4] cuda:0 = aten._to_copy.default(%y, none, none, cuda:0, none, false, none)
    %w: f32[4] cuda:0 = aten.add.Tensor(%x, %z, 1)
    output %w user
)"),
             contains("%x is on cuda:0 and %y is on cuda:1"));
  CHECK_THAT(refusal(R"(
    input %x: f32[4] cuda:0 user
    input %y: f32[4] user
    %z: f32[4] cuda:0 = aten._to_copy.default(%y, none, none, cuda:0, none, false, none)
    %w: f32[4] cuda:0 = aten.add.Tensor(%x, %z, 1)
    output %w user
)"),
             contains("%y is on cpu"));
  CHECK_THAT(refusal(R"(
    input %x: f32[4] cuda:0 user
    input %n: f32[] user
    %y: f32[4] cuda:0 = aten.add.Tensor(%x, %n, 1)
    %m: f32[] = aten.exp.default(%n)
    output %y user
    output %m user
)"),
             contains("%m is on cpu"));
}

}  // namespace
}  // namespace kiln
