#include <torch/torch.h>

#include <algorithm>
#include <string>

#include "kiln/base/error.hpp"
#include "kiln/export/export.hpp"
#include "kiln/testing/catch2.hpp"
#include "programs.hpp"

namespace kiln::exporter {
namespace {

using testing::contains;

constexpr std::size_t kFirst = 0;

ExportOptions rows(std::int64_t min, std::int64_t max) {
  return {.dynamic_dims = {{.input = kFirst, .dim = 0, .name = "n", .min = min, .max = max}}};
}

// What the export of a program of one tensor [n, 4] says if it cannot vary; empty if it does, and
// then it was run at other sizes.
std::string refusal(const TensorFunction& function, std::int64_t min = 2, std::int64_t max = 600) {
  try {
    const ExportedProgram program =
        export_program(function, {torch::randn({6, 4})}, rows(min, max));
    for (const std::int64_t size : {min, min + 1, std::int64_t{37}, std::int64_t{100}, max}) {
      const Tensors inputs = {torch::randn({size, 4})};
      const Tensors expected = function(inputs);
      const Tensors results = interpret(program, inputs);
      REQUIRE(results.size() == expected.size());
      for (std::size_t i = 0; i < results.size(); ++i) {
        REQUIRE(results[i].sizes() == expected[i].sizes());
        REQUIRE(torch::allclose(results[i], expected[i], 1e-4, 1e-5));
      }
    }
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST_CASE("EX-15 a program is exported for every size of a dimension", "[export][dynamic]") {
  CHECK(refusal([](const Tensors& in) { return Tensors{in[0].softmax(0) * 2, in[0].sum()}; }, 1)
            .empty());
  CHECK(refusal([](const Tensors& in) { return Tensors{in[0].t().matmul(in[0])}; }, 1).empty());
  CHECK(refusal([](const Tensors& in) {
          return Tensors{torch::cat({in[0], in[0].flip(0)}).view({-1, 2, 4}).sum(1)};
        }).empty());
  CHECK(refusal([](const Tensors& in) { return Tensors{in[0].reshape({-1}).slice(0, 3)}; }, 1)
            .empty());
}

TEST_CASE("programs that fool a few samples are refused, or right", "[export][dynamic]") {
  const auto first = [](const torch::Tensor& x, std::int64_t count) {
    return Tensors{x.slice(0, 0, count)};
  };

  CHECK_THAT(refusal([&](const Tensors& in) {
               return first(in[0], std::min<std::int64_t>(in[0].size(0), 512));
             }),
             contains("n' in [2, 512], not [2, 600]"));
  CHECK_THAT(refusal([&](const Tensors& in) { return first(in[0], in[0].size(0) % 2); }),
             contains("no expression of the symbols gives"));
  CHECK_THAT(refusal([&](const Tensors& in) { return first(in[0], in[0].size(0) / 3); }),
             contains("no expression of the symbols gives"));
  CHECK_THAT(refusal([&](const Tensors& in) {
               return Tensors{in[0].size(0) < 10 ? in[0].relu() : in[0].sigmoid()};
             }),
             contains("'n' is 9, and where 'n' is 10)"));
  CHECK_THAT(refusal([&](const Tensors& in) {
               return Tensors{in[0] * (1.0 / static_cast<double>(in[0].size(0)))};
             }),
             contains("aten.mul"));
}

TEST_CASE("a path that gives the same at one row belongs to the range", "[export][dynamic]") {
  const auto same = [](const Tensors& in) {
    return Tensors{in[0].size(0) == 1 ? in[0].clone() : in[0].cumsum(0)};
  };
  const auto other = [](const Tensors& in) {
    return Tensors{in[0].size(0) == 1 ? in[0].neg() : in[0].cumsum(0)};
  };

  CHECK(refusal(same, 1).empty());
  CHECK_THAT(refusal(other, 1), contains("n' in [2, 600], not [1, 600]"));
}

TEST_CASE("sizes of several inputs are related by their names", "[export][dynamic]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0] + in[1].slice(0, 1)}; };
  const Tensors example = {torch::randn({5}), torch::randn({6})};
  const ExportOptions options{
      .input_names = {"x", "y"},
      .dynamic_dims = {{.input = "x", .dim = 0, .name = "n", .min = 1, .max = 50},
                       {.input = "y", .dim = -1, .name = "n + 1"}}};

  const ExportedProgram program = export_program(function, example, options);

  CHECK(program.graph.symbols().at("n") == ir::Range{1, 50});
  for (const std::int64_t size : {1, 7, 50}) {
    const Tensors inputs = {torch::randn({size}), torch::randn({size + 1})};
    CHECK(torch::equal(interpret(program, inputs)[0], function(inputs)[0]));
  }
  CHECK_THROWS_WITH(interpret(program, {torch::randn({4}), torch::randn({4})}),
                    contains("input 1 'y', dimension 0: 4, but 'n + 1' is 5"));
  CHECK_THROWS_WITH(interpret(program, {torch::randn({51}), torch::randn({52})}),
                    contains("'n' is 51, must be 1 … 50"));
}

TEST_CASE("dynamic dimensions that make no sense are refused", "[export][dynamic]") {
  const auto refused = [](const DynamicDim& dim) {
    try {
      (void)export_program([](const Tensors& in) { return Tensors{in[0].relu()}; },
                           {torch::randn({6, 4})},
                           {.input_names = {"x"}, .dynamic_dims = {dim}});
      return std::string("exported");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };

  CHECK_THAT(refused({.input = "y", .dim = 0, .name = "n"}), contains("no input is called 'y'"));
  CHECK_THAT(refused({.input = std::size_t{1}, .dim = 0, .name = "n"}),
             contains("there is no input 1"));
  CHECK_THAT(refused({.input = kFirst, .dim = 2, .name = "n"}), contains("has 2 dimensions"));
  CHECK_THAT(refused({.input = kFirst, .dim = 0, .name = "n*n"}), contains("a line in one"));
  CHECK_THAT(refused({.input = kFirst, .dim = 0, .name = "2*n + 1"}),
             contains("is 6 in the example"));
  CHECK_THAT(refused({.input = kFirst, .dim = 0, .name = "n", .min = 7}),
             contains("is 6 in the example"));
}

}  // namespace
}  // namespace kiln::exporter
