#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::capture {
namespace {

using kiln::testing::contains;
using torch::Tensor;

using Pair = std::function<std::pair<Tensor, Tensor>(const Tensor&)>;

// A program that takes one of two ways, by whether two tensors that it computed are equal.
TensorFunction branching_on(const Pair& pair) {
  return [pair](const Tensors& in) {
    const auto [a, b] = pair(in[0] * 2);
    return Tensors{torch::equal(a, b) ? in[0].sin() : in[0].cos()};
  };
}

bool has_node(const Recording& recording, const std::string& target) {
  for (const ir::Node& node : recording.graph.nodes()) {
    if (node.target == target) {
      return true;
    }
  }
  return false;
}

TEST_CASE("a tensor equals itself, and no tensor of other sizes, whatever their elements",
          "[capture][compare]") {
  struct Case {
    Pair pair;
    bool equal;
  };
  const std::vector<Case> cases{
      {[](const Tensor& y) { return std::pair(y, y); }, true},
      {[](const Tensor& y) { return std::pair(y.select(0, 1), y.slice(0, 1, 2).squeeze(0)); },
       true},
      {[](const Tensor& y) { return std::pair(y, y.slice(0, 0, 2)); }, false},
      {[](const Tensor& y) { return std::pair(y, y.unsqueeze(0)); }, false}};
  for (const Case& each : cases) {
    for (const bool without_values : {false, true}) {
      const Recording recording = record(
          branching_on(each.pair), {torch::randn({3, 3})}, {.without_values = without_values});
      CHECK(has_node(recording, "aten.sin.default") == each.equal);
      CHECK(has_node(recording, "aten.cos.default") != each.equal);
      CHECK_FALSE(has_node(recording, "aten._assert_async.msg"));
    }
  }
}

TEST_CASE("other elements of the same memory are compared by their values", "[capture][compare]") {
  const std::vector<Pair> pairs{
      [](const Tensor& y) { return std::pair(y.slice(0, 0, 2), y.slice(0, 1, 3)); },
      [](const Tensor& y) { return std::pair(y, y.t()); },
      [](const Tensor& y) { return std::pair(y, y.view(torch::kInt)); },
      [](const Tensor& y) { return std::pair(y, y.clone()); }};
  for (const Pair& pair : pairs) {
    CHECK_THROWS_AS(record(branching_on(pair), {torch::randn({3, 3})}, {.without_values = true}),
                    Error);
    CHECK(has_node(record(branching_on(pair), {torch::randn({3, 3})}), "aten._assert_async.msg"));
  }
}

TEST_CASE("a graph runs only where tensors are as equal as they were", "[capture][compare]") {
  const TensorFunction program = [](const Tensors& in) {
    return Tensors{torch::equal(in[0], in[1]) ? in[0].sin() : in[0].cos()};
  };
  const Tensor x = torch::randn({4}), y = torch::randn({4});
  const auto replay = [&](const Recording& recording, const Tensor& a, const Tensor& b) {
    return Interpreter(recording.graph).run({a, b})[0];
  };
  const Recording alike = record(program, {x, x.clone()}), different = record(program, {x, y});

  CHECK(torch::equal(replay(alike, y, y.clone()), y.sin()));
  CHECK(torch::equal(replay(different, y, x), y.cos()));
  CHECK_THROWS_WITH(replay(alike, x, y), contains("for two tensors that are equal"));
  CHECK_THROWS_WITH(replay(different, y, y.clone()), contains("for two tensors that differ"));
}

}  // namespace
}  // namespace kiln::capture
