#include "passes/complex_numbers.hpp"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <string>

#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/verify.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::codegen {
namespace {

using kiln::testing::contains;

std::ptrdiff_t count(const ir::Graph& graph, const std::string& target) {
  return std::ranges::count(graph.nodes(), target, &ir::Node::target);
}

TEST_CASE("a tensor that is filled with a complex number is made of its parts",
          "[codegen][prepare]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: c64[3] user
    %a: c128[] = aten.full.default([], 0, c128, strided, cpu, false)
    %b: c64[2, 3] = aten.new_full.default(%x, [2, 3], 1.5, none, none, none, none)
    output %a user
    output %b user
  })");

  const ir::Graph made = complex_numbers_as_tensors(graph);

  ir::verify(made);
  CHECK(count(made, "aten.complex.default") == 2);
  CHECK(count(made, "aten.new_full.default") == 0);
  CHECK_THAT(
      ir::print(made),
      contains("aten.full.default([2, 3], 1.5, f32") && contains("aten.full.default([], 0.0, f64"));
}

TEST_CASE("a complex number becomes a tensor of one element", "[codegen][prepare]") {
  ir::Graph graph = ir::parse(R"(graph g {
    input %x: c64[4] user
    %y: c64[4] = aten.mul.Scalar(%x, 2.0)
    output %y user
  })");
  CHECK(ir::print(complex_numbers_as_tensors(graph)) == ir::print(graph));
  graph.node(ir::NodeId(0)).arguments[1] = std::complex<double>(1, 2);
  graph.node(ir::NodeId(0)).signature = "Tensor self,Scalar other->Tensor";

  const ir::Graph made = complex_numbers_as_tensors(graph);

  ir::verify(made);
  CHECK(count(made, "aten.mul.Scalar") == 0);
  CHECK(count(made, "aten.full.default") == 2);
  REQUIRE(made.nodes().size() == 4);
  CHECK(made.nodes()[3].target == "aten.mul.Tensor");
  CHECK(made.nodes()[3].signature == "Tensor self,Tensor other->Tensor");
  CHECK(made.tensor(made.nodes()[2].results[0]).dtype == ir::DType::kComplex64);
}

}  // namespace
}  // namespace kiln::codegen
