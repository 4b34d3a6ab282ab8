#include "kiln/codegen/compile.hpp"

#include <torch/torch.h>

#include "kiln/testing/catch2.hpp"
#include "support/loaded_model.hpp"

namespace kiln::codegen {
namespace {

using testing::graph_of;
using testing::LoadedModel;
using testing::Scheduler;
using testing::Tensors;
using testing::with_constants;

TEST_CASE("CG-01 a multi-layer perceptron equals eager", "[codegen][compile]") {
  const ir::Graph graph = graph_of(R"(graph mlp {
    input %x: f32[5, 19] user
    input %w1: f32[33, 19] parameter "fc1.weight"
    input %b1: f32[33] parameter "fc1.bias"
    input %w2: f32[7, 33] parameter "fc2.weight"
    %t1: f32[19, 33]{1, 19} = aten.t.default(%w1) view(0:0)
    %a: f32[5, 33] = aten.addmm.default(%b1, %x, %t1, 1, 1)
    %r: f32[5, 33] = aten.relu.default(%a)
    %s: f32[5, 33] = aten.sigmoid.default(%r)
    %m: f32[5, 33] = aten.mul.Tensor(%r, %s)
    %t2: f32[33, 7]{1, 33} = aten.t.default(%w2) view(0:0)
    %y: f32[5, 7] = aten.mm.default(%m, %t2)
    %z: f32[5, 7] = aten._softmax.default(%y, -1, false)
    output %z user
  })");
  const at::Tensor w1 = torch::randn({33, 19});
  const at::Tensor b1 = torch::randn({33});
  const at::Tensor w2 = torch::randn({7, 33});
  const Tensors weights = {w1, b1, w2};

  LoadedModel model(graph, with_constants(weights), weights, Scheduler::kReal);

  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = torch::randn({5, 19});
    const at::Tensor r = torch::relu(at::linear(x, w1, b1));
    const at::Tensor expected = at::softmax((r * torch::sigmoid(r)).mm(w2.t()), -1);
    CHECK(torch::allclose(model({x})[0], expected, 1e-5, 1e-6));
  }
  CHECK(model.report().kernels == 2);
  CHECK(model.report().extern_calls == 2);
}

TEST_CASE("operators without a kernel of their own are made of those that have one",
          "[codegen][compile]") {
  const ir::Graph graph = graph_of(R"(graph g {
    input %x: f32[2, 6, 5, 4] user
    input %w: f32[6] user
    input %y: f32[2, 6, 5, 4] user
    %n: f32[2, 6, 5, 4], %m: f32[2, 3], %s: f32[2, 3] = aten.native_group_norm.default(%x, %w, none, 2, 6, 20, 3, 1e-05)
    %h: f32[2, 6, 5, 4] = aten.hardswish.default(%n)
    %p: f32[2, 6, 5, 4] = aten.softplus.default(%h, 1, 20)
    %l: f32[] = aten.mse_loss.default(%p, %y, 1)
    output %l user
    output %p user
  })");
  LoadedModel model(graph, {}, {}, Scheduler::kReal);
  const at::Tensor x = torch::randn({2, 6, 5, 4});
  const at::Tensor w = torch::rand({6});
  const at::Tensor y = torch::randn({2, 6, 5, 4});

  const Tensors outputs = model({x, w, y});

  const at::Tensor p = at::softplus(at::hardswish(at::group_norm(x, 3, w)));
  CHECK(torch::allclose(outputs[0], at::mse_loss(p, y), 1e-4, 1e-5));
  CHECK(torch::allclose(outputs[1], p, 1e-4, 1e-5));
  CHECK(model.report().extern_calls == 0);
}

TEST_CASE("group norms of channels that have no places, one, and many", "[codegen][compile]") {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{3, 6}, {3, 6, 1}, {3, 6, 2}, {3, 6, 5}}) {
    const std::string type =
        "f32[3, 6" + (sizes.size() == 3 ? ", " + std::to_string(sizes[2]) : "") + "]";
    const std::string places = std::to_string(sizes.size() == 3 ? sizes[2] : 1);
    CAPTURE(type);
    LoadedModel model(
        graph_of("graph g {\n input %x: " + type + " user\n input %w: f32[6] user\n %n: " + type +
                 ", %m: f32[3, 2], %s: f32[3, 2] = " +
                 "aten.native_group_norm.default(%x, %w, none, 3, 6, " + places +
                 ", 2, 1e-05)\n output %n user\n output %m user\n}"),
        {},
        {},
        Scheduler::kReal);
    const at::Tensor x = torch::randn(sizes);
    const at::Tensor w = torch::rand({6});

    const Tensors outputs = model({x, w});

    CHECK(torch::allclose(outputs[0], at::group_norm(x, 2, w), 1e-4, 1e-5));
    CHECK(torch::allclose(outputs[1], x.reshape({3, 2, -1}).mean(2), 1e-4, 1e-5));
    CHECK(model.report().extern_calls == 0);
  }
}

TEST_CASE("a convolutional network runs channels last, its constants folded once",
          "[codegen][compile]") {
  const ir::Graph graph = graph_of(R"(graph g {
    input %x: f32[2, 3, 9, 8] user
    input %w1: f32[16, 3, 3, 3] parameter "conv1.weight"
    input %g: f32[16] parameter "norm.weight"
    input %b: f32[16] parameter "norm.bias"
    input %m: f32[16] buffer "norm.running_mean"
    input %v: f32[16] buffer "norm.running_var"
    input %w2: f32[16, 16, 1, 1] parameter "conv2.weight"
    input %c2: f32[16] parameter "conv2.bias"
    input %w3: f32[5, 16, 3, 3] parameter "conv3.weight"
    %a: f32[2, 16, 9, 8] = aten.convolution.default(%x, %w1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    %n: f32[2, 16, 9, 8], %s1: f32[0], %s2: f32[0] = aten.native_batch_norm.default(%a, %g, %b, %m, %v, false, 0.1, 1e-05)
    %r: f32[2, 16, 9, 8] = aten.relu.default(%n)
    %p: f32[2, 16, 4, 4], %i: i64[2, 16, 4, 4] = aten.max_pool2d_with_indices.default(%r, [2, 2], [2, 2], [0, 0], [1, 1], false)
    %h: f32[2, 16, 4, 4] = aten.convolution.default(%p, %w2, %c2, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
    %k: f32[2, 16, 4, 4] = aten.add.Tensor(%h, %p, 1)
    %o: f32[2, 5, 4, 4] = aten.convolution.default(%k, %w3, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    %f: f32[2, 80] = aten.view.default(%o, [2, 80]) view(0:0)
    %y: f32[2, 80] = aten.tanh.default(%f)
    output %y user
    output %o user
  })");
  const Tensors constants = {torch::randn({16, 3, 3, 3}),
                             torch::rand({16}),
                             torch::randn({16}),
                             torch::randn({16}),
                             torch::rand({16}) + 0.5,
                             torch::randn({16, 16, 1, 1}),
                             torch::randn({16}),
                             torch::randn({5, 16, 3, 3})};

  LoadedModel model(graph, with_constants(constants), constants, Scheduler::kReal);

  const at::Tensor x = torch::randn({2, 3, 9, 8});
  const Tensors outputs = model({x});
  const at::Tensor normed = at::batch_norm(at::conv2d(x, constants[0], {}, 1, 1),
                                           constants[1],
                                           constants[2],
                                           constants[3],
                                           constants[4],
                                           false,
                                           0.1,
                                           1e-5,
                                           false);
  const at::Tensor p = at::max_pool2d(at::relu(normed), 2);
  const at::Tensor o =
      at::conv2d(at::conv2d(p, constants[5], constants[6]) + p, constants[7], {}, 1, 1);
  CHECK(torch::allclose(outputs[1], o, 1e-4, 1e-4));
  CHECK(outputs[1].is_contiguous());
  CHECK(torch::allclose(outputs[0], at::tanh(o.flatten(1)), 1e-4, 1e-4));
  // Three weights in their layout, and a bias.
  CHECK(model.table().num_constants == 8 + 4);
}

TEST_CASE("kernels, library calls and views meet in one program", "[codegen][compile]") {
  const ir::Graph graph = graph_of(R"(graph g {
    input %x: f32[6, 10] user
    input %y: f32[10, 6] user
    %a: f32[6, 10] = aten.exp.default(%x)
    %s: f32[6, 10], %i: i64[6, 10] = aten.sort.default(%a, -1, true)
    %t: f32[10, 6]{1, 10} = aten.t.default(%s) view(0:0)
    %b: f32[10, 6] = aten.add.Tensor(%t, %y, 2)
    %c: f32[6, 6] = aten.mm.default(%s, %b)
    %d: f32[6] = aten.sum.dim_IntList(%c, [1], false, none)
    output %c user
    output %d user
    output %i user
    output %t user
  })");
  LoadedModel model(graph, {}, {}, Scheduler::kReal);
  const at::Tensor x = torch::randn({6, 10});
  const at::Tensor y = torch::randn({10, 6});

  const Tensors outputs = model({x, y});

  const auto [s, i] = torch::exp(x).sort(-1, true);
  const at::Tensor c = s.mm(s.t() + 2 * y);
  CHECK(torch::allclose(outputs[0], c, 1e-4, 1e-5));
  CHECK(torch::allclose(outputs[1], c.sum(1), 1e-4, 1e-4));
  CHECK(torch::equal(outputs[2], i));
  CHECK(torch::allclose(outputs[3], s.t(), 1e-5, 1e-6));
}

TEST_CASE("CG-11 kernels follow symbolic sizes", "[codegen][compile]") {
  const ir::Graph graph = graph_of(R"(graph g {
    symbol %s0 in [1, 512]
    input %x: f32[s0, 12] user
    input %w: f32[12, 8] user
    %a: f32[s0, 8] = aten.mm.default(%x, %w)
    %b: f32[s0, 8] = aten.relu.default(%a)
    %c: f32[s0, 8] = aten.add.Tensor(%b, %a, 1)
    output %c user
  })");
  LoadedModel model(graph, {}, {}, Scheduler::kReal);
  const at::Tensor w = torch::randn({12, 8});

  for (const int rows : {3, 100, 1, 257}) {
    const at::Tensor x = torch::randn({rows, 12});
    const at::Tensor a = x.mm(w);
    CHECK(torch::allclose(model({x, w})[0], torch::relu(a) + a, 1e-5, 1e-6));
  }
}

}  // namespace
}  // namespace kiln::codegen
