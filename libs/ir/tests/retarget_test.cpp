#include "kiln/ir/retarget.hpp"

#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

using testing::contains;

TEST_CASE("tensors and device arguments go to the other device", "[ir][retarget]") {
  const Graph graph = parse(R"(graph g {
    input %x: f32[4] user
    %e: f32[4] = aten.empty.memory_format([4], f32, strided, cpu, false, none)
    %y: f32[4] = aten.add.Tensor(%x, %e, 1)
    output %y user
  })");

  const std::string text = print(retarget(graph, DeviceType::kCuda));

  CHECK_THAT(text, contains("input %x: f32[4] cuda") && contains("%y: f32[4] cuda"));
  CHECK_THAT(text, contains("strided, cuda, false") && !contains("cpu"));
  CHECK(print(retarget(parse(text), DeviceType::kCpu)) == print(graph));
}

constexpr const char* kAttention = R"(graph g {
    input %q: f32[1, 2, 4, 8] user
    input %m: f32[4, 4] user
    %a: f32[1, 2, 4, 8], %s: f32[1, 4, 2] = aten._scaled_dot_product_flash_attention_for_cpu.default(%q, %q, %q, 0.0, false, %m, 0.5)
    output %a user
)";

TEST_CASE("the CPU's attention becomes the one that libtorch chooses for", "[ir][retarget]") {
  const Graph graph = parse(std::string(kAttention) + "}");

  const Graph result = retarget(graph, DeviceType::kCuda);

  REQUIRE(result.nodes().size() == 1);
  CHECK_THAT(print(result),
             contains("%a: f32[1, 2, 4, 8] cuda = aten.scaled_dot_product_attention.default"
                      "(%q, %q, %q, %m, 0.0, false, 0.5, false)"));
}

TEST_CASE("what only the CPU's attention returns is refused by name", "[ir][retarget]") {
  const Graph graph = parse(std::string(kAttention) + "    output %s user\n}");

  CHECK_THROWS_WITH(
      retarget(graph, DeviceType::kCuda),
      contains("result 1 of aten._scaled_dot_product_flash_attention_for_cpu.default (%s) has no "
               "counterpart"));
}

}  // namespace
}  // namespace kiln::ir
