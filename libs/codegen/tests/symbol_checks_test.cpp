#include "kiln/testing/catch2.hpp"
#include "support/loaded_model.hpp"

namespace kiln::codegen {
namespace {

using testing::graph_of;
using testing::LoadedModel;
using testing::Scheduler;
using testing::Tensors;

// What the model says of inputs that it refuses; empty if it runs. The models here have no
// container that could have looked at the inputs before: they are as with `check_inputs` off.
std::string refusal(LoadedModel& model, const Tensors& inputs) {
  Tensors outputs;
  const int code = model.run(inputs, &outputs);
  CHECK((code != 0) == outputs.empty());
  return code == 0 ? "" : model.error();
}

TEST_CASE("DS-22 equal symbols that disagree are refused", "[codegen][symbols]") {
  LoadedModel model(graph_of(R"(graph g {
    symbol %s0 in [1, 512]
    input %ids: f32[4, s0] user
    input %mask: f32[4, s0] user
    %a: f32[4, s0] = aten.add.Tensor(%ids, %mask, 1)
    output %a user
  })"),
                    {},
                    {},
                    Scheduler::kReal);
  const at::Tensor ids = torch::randn({4, 10});

  CHECK(refusal(model, {ids, torch::randn({4, 12})}) ==
        "input 1 'mask', dimension 1: 12, but 's0' is 10 (input 0 'ids', dimension 1)");
  CHECK(refusal(model, {ids, torch::randn({4, 8})}) ==
        "input 1 'mask', dimension 1: 8, but 's0' is 10 (input 0 'ids', dimension 1)");
  CHECK(refusal(model, {ids, torch::randn({4})}) == "input 1 'mask': expected rank 2, but got 1");
  const at::Tensor mask = torch::randn({4, 10});
  CHECK(torch::equal(model({ids, mask})[0], ids + mask));
}

TEST_CASE("a refused call leaves the memory of the last size alone", "[codegen][symbols]") {
  LoadedModel model(graph_of(R"(graph g {
    symbol %s0 in [1, 100000]
    input %x: f32[s0, 4] user
    input %y: f32[s0, 4] user
    input %w: f32[4, 4] user
    %a: f32[s0, 4] = aten.mm.default(%x, %w)
    %b: f32[s0, 4] = aten.relu.default(%a)
    %c: f32[s0, 4] = aten.mm.default(%b, %w)
    output %c user
  })"));
  const at::Tensor w = torch::randn({4, 4});
  const at::Tensor small = torch::randn({3, 4});
  const at::Tensor large = torch::randn({50000, 4});

  REQUIRE(refusal(model, {small, small, w}).empty());
  REQUIRE_FALSE(refusal(model, {large, small, w}).empty());

  CHECK(torch::allclose(model({large, large, w})[0], large.mm(w).relu().mm(w), 1e-4, 1e-5));
}

TEST_CASE("DS-16 a symbol outside of its range is refused", "[codegen][symbols]") {
  LoadedModel model(graph_of(R"(graph g {
    symbol %s0 in [2, 512]
    symbol %s1 in [3, 9223372036854775807]
    input %x: f32[s0, s1] user
    %a: f32[s0, s1] = aten.relu.default(%x)
    output %a user
  })"));

  CHECK(refusal(model, {torch::randn({600, 4})}) ==
        "input 0 'x', dimension 0: 's0' is 600, must be 2 … 512");
  CHECK(refusal(model, {torch::randn({1, 4})}) ==
        "input 0 'x', dimension 0: 's0' is 1, must be 2 … 512");
  CHECK(refusal(model, {torch::randn({2, 2})}) ==
        "input 0 'x', dimension 1: 's1' is 2, must be at least 3");
  CHECK(refusal(model, {torch::randn({2, 3})}).empty());
  CHECK(refusal(model, {torch::randn({512, 3})}).empty());
}

TEST_CASE("DS-11 a size that no integer symbol gives is refused", "[codegen][symbols]") {
  LoadedModel model(graph_of(R"(graph g {
    symbol %s0 in [1, 512]
    input %x: f32[2*s0 + 4] user
    %a: f32[2*s0 + 4] = aten.relu.default(%x)
    output %a user
  })"));

  CHECK(refusal(model, {torch::randn({9})}) ==
        "input 0 'x', dimension 0: 9, must be '2*s0 + 4' for an integer 's0'");
  CHECK(refusal(model, {torch::randn({4})}) ==
        "input 0 'x', dimension 0: 's0' is 0, must be 1 … 512");
  const at::Tensor x = torch::randn({10});
  CHECK(torch::equal(model({x})[0], x.relu()));
}

TEST_CASE("DS-09 sizes computed from symbols are checked", "[codegen][symbols]") {
  LoadedModel model(graph_of(R"(graph g {
    symbol %s0 in [1, 512]
    symbol %s1 in [1, 512]
    input %x: f32[s0] user
    input %y: f32[s0 + 1] user
    input %z: f32[s1] user
    input %c: f32[s0 + 2*s1] user
    %a: f32[s0 + 1] = aten.relu.default(%y)
    output %a user
  })"));
  const auto of = [](int x, int y, int z, int c) {
    return Tensors{torch::randn({x}), torch::randn({y}), torch::randn({z}), torch::randn({c})};
  };

  CHECK(refusal(model, of(5, 6, 3, 11)).empty());
  CHECK(refusal(model, of(5, 5, 3, 11)) ==
        "input 1 'y', dimension 0: 5, but 's0 + 1' is 6, as 's0' is 5 (input 0 'x', dimension 0)");
  CHECK(refusal(model, of(5, 6, 3, 12)) ==
        "input 3 'c', dimension 0: 12, but 's0 + 2*s1' is 11, as 's0' is 5 (input 0 'x', "
        "dimension 0) and 's1' is 3 (input 2 'z', dimension 0)");
}

TEST_CASE("DS-15 strides that follow from symbols are checked", "[codegen][symbols]") {
  LoadedModel model(graph_of(R"(graph g {
    symbol %s0 in [1, 512]
    symbol %s1 in [1, 512]
    input %x: f32[s0, s1] user
    input %y: f32[s0, 4] user
    %a: f32[s0, s1] = aten.relu.default(%x)
    output %a user
  })"));
  const at::Tensor y = torch::randn({3, 4});

  CHECK(refusal(model, {torch::randn({5, 3}).t(), y}) ==
        "input 0 'x', dimension 0: stride 1, but 's1' is 5 (input 0 'x', dimension 1)");
  CHECK(refusal(model, {torch::randn({3, 10}).slice(1, 0, 5), y}) ==
        "input 0 'x', dimension 0: stride 10, but 's1' is 5 (input 0 'x', dimension 1)");
  CHECK(refusal(model, {torch::randn({3, 1}).expand({3, 5}), y}) ==
        "input 0 'x', dimension 0: stride 1, but 's1' is 5 (input 0 'x', dimension 1)");
  CHECK(refusal(model, {torch::randn({3, 5}), torch::randn({4}).expand({3, 4})}) ==
        "input 1 'y', dimension 0: stride 0, must be 4");
  // The stride of a single row is never used.
  CHECK(refusal(model, {torch::randn({5, 1}).t(), torch::randn({4}).expand({1, 4})}).empty());
}

TEST_CASE("an empty input may have any strides", "[codegen][symbols]") {
  LoadedModel model(graph_of(R"(graph g {
    symbol %s0 in [0, 512]
    symbol %s1 in [0, 512]
    input %x: f32[s0, s1] user
    %a: f32[s0, s1] = aten.relu.default(%x)
    output %a user
  })"));

  CHECK(refusal(model, {torch::empty({0, 5})}).empty());
  CHECK(refusal(model, {torch::empty({5, 0}).t()}).empty());
  CHECK(refusal(model, {torch::empty_strided({0, 5}, {77, 3})}).empty());
}

TEST_CASE("DS-26 an integer that is passed agrees with its symbol", "[codegen][symbols]") {
  LoadedModel model(graph_of(R"(graph g {
    symbol %s0 in [1, 64]
    input %x: f32[s0] user
    input %n: int(s0) user
    input %m: int(2*s0) user
    %a: f32[s0] = aten.relu.default(%x)
    output %a user
  })"));
  const auto number = [](std::int64_t value) { return torch::tensor(value); };

  CHECK(refusal(model, {torch::randn({7}), number(7), number(14)}).empty());
  CHECK(refusal(model, {torch::randn({7}), number(6), number(14)}) ==
        "input 1 'n': 6, but 's0' is 7 (input 0 'x', dimension 0)");
  CHECK(refusal(model, {torch::randn({7}), number(7), number(15)}) ==
        "input 2 'm': 15, but '2*s0' is 14, as 's0' is 7 (input 0 'x', dimension 0)");
}

TEST_CASE("names in a refusal are the inputs' own, signs and all", "[codegen][symbols]") {
  ir::Graph graph = graph_of(R"(graph g {
    symbol %s0 in [1, 64]
    input %x: f32[s0] user
    %a: f32[s0] = aten.relu.default(%x)
    output %a user
  })");
  graph.inputs()[0].name = "100% \"x\"";
  LoadedModel model(graph);

  CHECK(refusal(model, {torch::randn({65})}) ==
        "input 0 '100% \"x\"', dimension 0: 's0' is 65, must be 1 … 64");
}

}  // namespace
}  // namespace kiln::codegen
