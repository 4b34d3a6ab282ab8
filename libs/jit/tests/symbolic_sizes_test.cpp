#include "symbolic_sizes.hpp"

#include <torch/torch.h>

#include "kiln/base/error.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

using autograd_dispatch::InputPlan;
using testing::contains;

using Inputs = std::vector<at::Tensor>;

// x[n, m, 5], y[5], z[2*n + 1, m] with its dimensions in the other order.
SymbolicSizes example() {
  const ir::Graph graph = ir::parse(R"(graph g {
  symbol %n in [0, 100]
  symbol %m in [2, 64]
  input %x: f32[n, m, 5] user
  input %y: f32[5] user
  input %z: f32[2*n + 1, m]{1, 2*n + 1} user
  output %x user
})");
  return {graph, {{.argument = 0}, {.argument = 1}, {.argument = 2}}, graph.symbols()};
}

Inputs inputs(std::int64_t n, std::int64_t m, std::int64_t length) {
  return {torch::ones({n, m, 5}), torch::ones({5}), torch::ones({m, length}).t()};
}

TEST_CASE("symbolic sizes hold for a range and for relations", "[jit][symbolic_sizes]") {
  const SymbolicSizes sizes = example();
  CHECK(sizes.mentions(0));
  CHECK_FALSE(sizes.mentions(1));
  CHECK(sizes.mentions(2));
  for (const std::int64_t n : {0, 1, 2, 37, 100}) {
    CHECK(sizes.holds(inputs(n, 4, 2 * n + 1)));
  }
  const auto difference = [&](const Inputs& given) {
    CHECK(sizes.holds(given) == sizes.difference(given, {}).empty());
    return sizes.difference(given, {.tensors = {"x", "y", "z"}});
  };
  CHECK(difference(inputs(101, 4, 203)) ==
        "input 0 'x', dimension 0: 'n' is 101, compiled for 0 … 100");
  CHECK(difference(inputs(3, 1, 7)) == "input 0 'x', dimension 1: 'm' is 1, compiled for 2 … 64");
  CHECK(difference(inputs(3, 4, 8)) == "input 2 'z', dimension 0: 8, compiled for 2*n + 1, here 7");
  Inputs given = inputs(3, 4, 7);
  given[2] = torch::ones({7, 4});
  CHECK(difference(given) == "input 2 'z', stride of dimension 0: 4, must be 1");
  given = inputs(3, 4, 7);
  given[0] = torch::ones({3, 4, 6});
  CHECK(difference(given) == "input 0 'x', dimension 2: 6, compiled for 5");
  given[0] = torch::ones({3, 8, 5}).slice(1, 0, 8, 2);
  CHECK_THAT(difference(given), contains("stride of dimension 1: 10, must be 5"));
}

TEST_CASE("symbolic sizes say what varies", "[jit][symbolic_sizes]") {
  const SymbolicSizes sizes = example();
  CHECK(sizes.sizes_text(2) == "[2*n + 1, m]");
  CHECK(sizes.describe({}) ==
        std::vector<std::string>{"'n' in 0 … 100: input 0, dimension 0; input 2, dimension 0",
                                 "'m' in 2 … 64: input 0, dimension 1; input 2, dimension 1"});
}

TEST_CASE("symbolic sizes are kept as a line", "[jit][symbolic_sizes]") {
  const SymbolicSizes sizes = SymbolicSizes::from_line(example().to_line());
  CHECK(sizes.to_line() == example().to_line());
  CHECK(sizes.holds(inputs(3, 4, 7)));
  CHECK_FALSE(sizes.holds(inputs(3, 4, 8)));
  for (const char* damaged : {"",
                              "1",
                              "1 n 0 5 1 0 1 3 1 0 0",
                              "1 n 0 5 1 0 1 0 0 0 0",
                              "1 n 0 5 1 0 1 0 1 0 7",
                              "99999999"}) {
    CHECK_THROWS_AS(SymbolicSizes::from_line(damaged), Error);
  }
}

TEST_CASE("symbolic sizes take ranges of all of their symbols", "[jit][symbolic_sizes]") {
  SymbolicSizes sizes = example();
  sizes.set_ranges({{"n", {.low = 0, .high = 7}}, {"m", {.low = 2, .high = 64}}});
  CHECK_FALSE(sizes.holds(inputs(8, 4, 17)));
  CHECK_THROWS_WITH(sizes.set_ranges({{"n", {.low = 0, .high = 7}}}),
                    contains("the symbol 'm' of a size has no range"));
}

TEST_CASE("an input whose elements are not dense cannot have sizes that vary",
          "[jit][symbolic_sizes]") {
  const ir::Graph graph = ir::parse(R"(graph g {
  symbol %n in [0, 100]
  input %x: f32[n, 4]{8, 1} user
  output %x user
})");
  CHECK_THROWS_WITH(SymbolicSizes(graph, {{.argument = 0}}, graph.symbols()),
                    contains("not dense"));
}

}  // namespace
}  // namespace kiln
