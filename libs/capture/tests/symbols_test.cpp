#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::capture {
namespace {

using kiln::testing::contains;
using torch::Tensor;

// `y` says what the symbols are, and the others must agree.
const Interpreter& program() {
  static const Interpreter interpreter(ir::parse(R"(graph g {
    symbol %m in [1, 4]
    symbol %n in [2, 8]
    input %x: f32[2*n + 1, 3] user "x"
    input %y: f32[m, 2*n + 1] user "y"
    input %z: f32[m, 1] user "z"
    %p: f32[m, 3] = aten.mm.default(%y, %x)
    output %p user
  })"));
  return interpreter;
}

std::vector<Tensor> run(c10::IntArrayRef x, c10::IntArrayRef y, c10::IntArrayRef z) {
  return program().run({torch::ones(x), torch::ones(y), torch::ones(z)});
}

TEST_CASE("a graph with symbols runs at every size in their ranges", "[capture][symbols]") {
  for (const std::int64_t m : {1, 4}) {
    for (const std::int64_t n : {2, 5, 8}) {
      const Tensor result = run({2 * n + 1, 3}, {m, 2 * n + 1}, {m, 1})[0];
      CHECK(torch::equal(result, torch::full({m, 3}, static_cast<float>(2 * n + 1))));
    }
  }
}

TEST_CASE("sizes that a graph with symbols does not take are named", "[capture][symbols]") {
  CHECK_THROWS_WITH(run({6, 3}, {1, 6}, {1, 1}), contains("6 does not give an integer 'n'"));
  CHECK_THROWS_WITH(run({19, 3}, {1, 19}, {1, 1}),
                    contains("input 1 'y', dimension 1: 'n' is 9, must be 2 … 8"));
  CHECK_THROWS_WITH(run({3, 3}, {1, 3}, {1, 1}), contains("'n' is 1, must be 2 … 8"));
  CHECK_THROWS_WITH(run({5, 3}, {5, 5}, {5, 1}), contains("'m' is 5, must be 1 … 4"));
  CHECK_THROWS_WITH(run({5, 3}, {2, 5}, {1, 1}),
                    contains("input 2 'z', dimension 0: 1, but 'm' is 2"));
  CHECK_THROWS_WITH(run({5, 3}, {2, 7}, {2, 1}),
                    contains("input 0 'x', dimension 0: 5, but '2*n + 1' is 7"));
  CHECK_THROWS_WITH(run({5, 3}, {2, 5}, {2, 1, 1}),
                    contains("input 2 'z' has 3 dimensions, must have 2"));
}

TEST_CASE("a symbol that no input has does not matter", "[capture][symbols]") {
  const Interpreter unused(ir::parse(R"(graph g {
    symbol %n in [1, 2]
    input %x: f32[3] user
    %y: f32[3] = aten.sin.default(%x)
    output %y user
  })"));
  const Tensor x = torch::ones({3});

  CHECK(torch::equal(unused.run({x})[0], x.sin()));
}

TEST_CASE("every size must be what an integer before it says", "[capture][symbols]") {
  const Interpreter square(ir::parse(R"(graph g {
    symbol %n in [1, 8]
    input %size: int(n) user "size"
    input %x: f32[n, n] user "x"
    %y: f32[n, n] = aten.sin.default(%x)
    output %y user
  })"));
  const auto run_at = [&](std::int64_t n, c10::IntArrayRef sizes) {
    return square.run({torch::tensor(n), torch::ones(sizes)})[0];
  };

  CHECK(run_at(3, {3, 3}).sizes() == c10::IntArrayRef({3, 3}));
  CHECK_THROWS_WITH(run_at(3, {4, 3}), contains("input 1 'x', dimension 0: 4, but 'n' is 3"));
  CHECK_THROWS_WITH(run_at(3, {3, 4}), contains("input 1 'x', dimension 1: 4, but 'n' is 3"));
  CHECK_THROWS_WITH(run_at(9, {9, 9}), contains("input 0 'size': 'n' is 9, must be 1 … 8"));
}

TEST_CASE("an integer that the user passes is what the graph says", "[capture][symbols]") {
  const auto graph_with = [](const std::string& symbols, const std::string& size) {
    return ir::parse("graph g {" + symbols + R"(
      input %x: f32[3] user "x"
      input %n: int()" +
                     size + R"() user "n"
      input %m: int()" +
                     size + R"() user "m"
      %y: f32[3] = aten.mul.Scalar(%x, )" +
                     size + R"()
      output %y user
    })");
  };
  const Interpreter scaled(graph_with("\nsymbol %s in [0, 9]", "s")), fixed(graph_with("", "5"));
  const torch::Tensor x = torch::randn({3});
  const auto run = [&](const Interpreter& interpreter, std::int64_t n, std::int64_t m) {
    return interpreter.run({x, torch::tensor(n), torch::tensor(m)})[0];
  };

  CHECK(torch::equal(run(scaled, 7, 7), x * 7));
  CHECK(torch::equal(run(scaled, 0, 0), x * 0));
  CHECK(torch::equal(run(fixed, 5, 5), x * 5));
  CHECK_THROWS_WITH(run(scaled, 7, 8), contains("input 2 'm': 8, but 's' is 7"));
  CHECK_THROWS_WITH(run(scaled, -1, -1), contains("input 1 'n': 's' is -1, must be 0 … 9"));
  CHECK_THROWS_WITH(run(fixed, 5, 6), contains("input 2 'm': 6, must be 5"));
}

}  // namespace
}  // namespace kiln::capture
