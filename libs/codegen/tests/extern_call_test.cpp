#include "libtorch/call_path.hpp"

#include <torch/csrc/inductor/aoti_runner/model_container_runner_cpu.h>
#include <torch/torch.h>

#include "kiln/base/error.hpp"
#include "kiln/testing/catch2.hpp"
#include "support/loaded_model.hpp"

namespace kiln::codegen {
namespace {

using testing::graph_of;
using testing::LoadedModel;
using testing::Tensors;

TEST_CASE("CG-08 operators of the generated shim are called by it", "[codegen][extern_call]") {
  const ir::Graph graph = graph_of(R"(graph g {
    input %x: f32[2, 3, 8, 8] user
    input %w: f32[4, 3, 3, 3] user
    input %b: f32[4] user
    %c: f32[2, 4, 6, 6] = aten.convolution.default(%x, %w, %b, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
    %n: f32[2, 4, 6, 6] = aten.convolution.default(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
    %p: f32[2, 4, 3, 3], %i: i64[2, 4, 3, 3] = aten.max_pool2d_with_indices.default(%c, [2, 2], [2, 2], [0, 0], [1, 1], false)
    none, %gw: f32[4, 3, 3, 3], none = aten.convolution_backward.default(%c, %x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [false, true, false])
    output %p user
    output %i user
    output %n user
    output %gw user
  })");
  for (const ir::Node& node : graph.nodes()) {
    CHECK(choose_call_path(graph, node) == CallPath::kShim);
  }
  LoadedModel model(graph);
  const at::Tensor x = torch::randn({2, 3, 8, 8});
  const at::Tensor w = torch::randn({4, 3, 3, 3});
  const at::Tensor b = torch::randn({4});

  const Tensors outputs = model({x, w, b});

  const at::Tensor c = at::convolution(x, w, b, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1);
  const auto [p, i] = at::max_pool2d_with_indices(c, {2, 2}, {2, 2});
  CHECK(torch::equal(outputs[0], p));
  CHECK(torch::equal(outputs[1], i));
  CHECK(torch::allclose(outputs[2] + b.view({1, 4, 1, 1}), c, 1e-4, 1e-5));
  const auto gradients = at::convolution_backward(
      c, x, w, std::nullopt, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1, {false, true, false});
  CHECK(torch::allclose(outputs[3], std::get<1>(gradients), 1e-4, 1e-4));
}

TEST_CASE("CG-08 an operator of no shim goes through the dispatcher", "[codegen][extern_call]") {
  const ir::Graph graph = graph_of(
      R"(graph g {
    input %x: f32[4, 6] user
    input %w: f32[6] user
    %roll: f32[4, 6] = aten.roll.default(%x, [1, 2], [0, 1])
    %n: f32[4, 6], %m: f32[4, 1], %r: f32[4, 1] = aten.native_layer_norm.default(%roll, [6], %w, none, 1e-05)
    %s: f32[4] = aten.sum.dim_IntList(%n, [1], false, none)
    %s64: f64[4] = aten.sum.dim_IntList(%n, [-1], false, f64)
    %q: f32[4, 6] = aten.div.Tensor_mode(%x, %n, "floor")
    %d: f32[4, 6] = aten.div.Tensor_mode(%x, %n, none)
    %k: f32[2, 6], %l: f32[2, 6] = aten.unsafe_split.Tensor(%q, 2, 0)
    %e: f32[4, 6] = aten.empty_like.default(%x, none, none, none, none, contiguous_format)
    %st: f32[2, 4, 6] = aten.stack.default([%x, %d], 0)
    %ones: f32[3] = aten.ones.default([3], f32, strided, cpu, false)
    output %n user
    output %s user
    output %s64 user
    output %q user
    output %d user
    output %k user
    output %l user
    output %st user
    output %ones user
  })",
      {{"aten.roll.default", "Tensor,int[],int[]->Tensor"},
       {"aten.native_layer_norm.default",
        "Tensor,SymInt[],Tensor?,Tensor?,float->Tensor,Tensor,Tensor"},
       {"aten.sum.dim_IntList", "Tensor,int[]?,bool,ScalarType?->Tensor"},
       {"aten.div.Tensor_mode", "Tensor,Tensor,str?->Tensor"},
       {"aten.unsafe_split.Tensor", "Tensor,SymInt,int->Tensor[]"},
       {"aten.empty_like.default",
        "Tensor,ScalarType?,Layout?,Device?,bool?,MemoryFormat?->Tensor"},
       {"aten.stack.default", "Tensor[],int->Tensor"},
       {"aten.ones.default", "SymInt[],ScalarType?,Layout?,Device?,bool?->Tensor"}});
  for (const ir::Node& node : graph.nodes()) {
    CHECK(choose_call_path(graph, node) == CallPath::kDispatcher);
  }
  LoadedModel model(graph);
  const at::Tensor x = torch::randn({4, 6});
  const at::Tensor w = torch::randn({6});

  Tensors outputs;
  for (int i = 0; i < 3; ++i) {
    outputs = model({x, w});
  }

  const at::Tensor n = at::layer_norm(x.roll({1, 2}, {0, 1}), {6}, w);
  CHECK(torch::allclose(outputs[0], n));
  CHECK(torch::allclose(outputs[1], n.sum(1)));
  CHECK(torch::allclose(outputs[2], n.to(torch::kDouble).sum(1)));
  CHECK(torch::equal(outputs[3], at::div(x, outputs[0], "floor")));
  CHECK(torch::equal(outputs[4], x / outputs[0]));
  CHECK(torch::equal(outputs[5], outputs[3].slice(0, 0, 2)));
  CHECK(torch::equal(outputs[6], outputs[3].slice(0, 2, 4)));
  CHECK(torch::equal(outputs[7], torch::stack({x, outputs[4]})));
  CHECK(torch::equal(outputs[8], torch::ones({3})));
}

TEST_CASE("optional tensors in lists reach the operator", "[codegen][extern_call]") {
  const std::string text = R"(graph g {
    input %x: f32[5, 7] user
    input %i: i64[3] user
    %a: f32[5, 3] = aten.index.Tensor(%x, [none, %i])
    %b: f32[3, 7] = aten._unsafe_index.Tensor(%x, [%i, none])
    output %a user
    output %b user
  })";
  LoadedModel model(graph_of(text, {{"aten._unsafe_index.Tensor", "Tensor,Tensor?[]->Tensor"}}));
  const at::Tensor x = torch::randn({5, 7});
  const at::Tensor i = torch::tensor({4, 0, 2});

  const Tensors outputs = model({x, i});

  CHECK(torch::equal(outputs[0], x.index_select(1, i)));
  CHECK(torch::equal(outputs[1], x.index_select(0, i)));
}

TEST_CASE("a view that libtorch makes of a temporary may leave the model",
          "[codegen][extern_call]") {
  const std::string text = R"(graph g {
    input %x: f32[4, 4] user
    %a: f32[4, 4] = aten.mm.default(%x, %x)
    %d: f32[4]{5} = aten.diagonal.default(%a, 0, 0, 1) view(0:0)
    %b: f32[4, 4] = aten.mm.default(%a, %x)
    %c: f32[4, 4] = aten.mm.default(%b, %x)
    output %d user
    output %c user
  })";
  LoadedModel model(graph_of(text, {{"aten.diagonal.default", "Tensor,int,int,int->Tensor"}}));
  const at::Tensor x = torch::randn({4, 4});
  const Tensors first = model({x});

  model({x * 3});

  CHECK(torch::equal(first[0], x.mm(x).diagonal()));
  CHECK(torch::equal(first[1], x.mm(x).mm(x).mm(x)));
}

TEST_CASE("a Scalar goes through the host's proxy executor", "[codegen][extern_call]") {
  const ir::Graph graph = graph_of(
      R"(graph g {
    input %x: f32[4] user
    input %i: i64[4] user
    %a: f32[4] = aten.clamp.default(%x, 0.25, none)
    %b: i64[4] = aten.add.Tensor(%i, %i, 3)
    output %a user
    output %b user
  })",
      {{"aten.clamp.default", "Tensor self,Scalar? min,Scalar? max->Tensor"},
       {"aten.add.Tensor", "Tensor self,Tensor other,Scalar alpha->Tensor"}});
  const TemporaryDirectory directory;
  const std::filesystem::path library = directory.path() / "model.so";

  const Report report = compile_schedule(
      testing::schedule_by_hand(graph), nullptr, CpuBackend({Target{}}), library, Options{});

  CHECK(report.extern_nodes == directory.path() / "model.json");
  // PyTorch's own runner: it reads the JSON and brings the executor.
  torch::inductor::AOTIModelContainerRunnerCpu runner(library.string());
  const at::Tensor x = torch::randn({4});
  const at::Tensor i = torch::tensor(std::vector<std::int64_t>{1, -2, 3, 40000000000});
  std::vector<at::Tensor> inputs{x, i};
  const std::vector<at::Tensor> outputs = runner.run(inputs);
  CHECK(torch::equal(outputs[0], x.clamp(0.25)));
  CHECK(torch::equal(outputs[1], i * 4));

  // A host without one gets a message instead.
  LoadedModel bare(graph);
  Tensors none;
  CHECK(bare.run({x, i}, &none) != 0);
  CHECK(none.empty());
}

TEST_CASE("what no rung can carry is refused by name", "[codegen][extern_call]") {
  const auto refusal = [](const std::string& call, const std::string& signature) {
    const ir::Graph graph = graph_of(
        "graph g {\n input %x: f32[4] user\n %a: f32[4] = " + call + "\n output %a user\n}",
        {{call.substr(0, call.find('(')), signature}});
    try {
      (void)choose_call_path(graph, graph.nodes()[0]);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kUnsupported);
      return std::string(error.what());
    }
    return std::string();
  };

  CHECK_THAT(refusal("aten.clamp.default(%x, 1, none)", "Tensor,Scalar?,Scalar?->Tensor"),
             kiln::testing::contains("aten.clamp.default") &&
                 kiln::testing::contains("name its arguments"));
  CHECK_THAT(refusal("aten.sin.default(%x)", ""), kiln::testing::contains("signature"));
  CHECK_THAT(refusal("my.op.default(%x)", "Tensor->Tensor,int"),
             kiln::testing::contains("other than tensors"));
  CHECK_THAT(refusal("my.fill.default([], 0.5)", "int[] size,Scalar value->Tensor"),
             kiln::testing::contains("an empty list of integers"));
  CHECK(refusal("aten.sin.default(%x)", "Tensor->Tensor").empty());
}

}  // namespace
}  // namespace kiln::codegen
