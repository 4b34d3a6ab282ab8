#include <torch/torch.h>

#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "support/loaded_model.hpp"

namespace kiln::codegen {
namespace {

using testing::graph_of;
using testing::LoadedModel;
using testing::Scheduler;
using testing::Tensors;
using testing::with_constants;

TEST_CASE("a product and a kernel make a model that equals eager", "[codegen][model]") {
  LoadedModel model(graph_of(R"(graph g {
    input %x: f32[8, 16] user
    input %w: f32[16, 32] user
    %a: f32[8, 32] = aten.mm.default(%x, %w)
    %b: f32[8, 32] = aten.relu.default(%a)
    output %b user
  })"));
  const at::Tensor x = torch::randn({8, 16});
  const at::Tensor w = torch::randn({16, 32});

  for (int i = 0; i < 3; ++i) {
    const Tensors outputs = model({x + i, w});
    REQUIRE(outputs.size() == 1);
    CHECK(torch::equal(outputs[0], torch::relu((x + i).mm(w))));
  }
  CHECK(model.table().num_inputs == 2);
  CHECK(std::string(model.table().inputs[1].name) == "w");
  CHECK(model.report().kernels == 1);
  CHECK(model.report().extern_calls == 1);
  CHECK(model.report().arena_bytes == 8 * 32 * 4);
}

TEST_CASE("a model has its kernels for several instruction sets and runs the best",
          "[codegen][model]") {
#if defined(__aarch64__)
  const std::vector<std::string> lists{"neon,native", "neon,sve", "neon,native,sve"};
#else
  const std::vector<std::string> lists{"x86-64-v2,native", "x86-64-v2,x86-64-v3,x86-64-v4"};
#endif
  const ir::Graph graph = graph_of(R"(graph g {
    input %x: f32[40, 33] user
    %t: f32[40, 33] = aten.tanh.default(%x)
    %s: f32[40, 1] = aten.sum.dim_IntList(%t, [1], true, none)
    %y: f32[40, 33] = aten.mul.Tensor(%t, %s)
    output %y user
  })");
  const at::Tensor x = torch::randn({40, 33});
  const at::Tensor expected = x.tanh() * x.tanh().sum(1, true);
  for (const std::string& list : lists) {
    INFO(list);
    const TemporaryDirectory directory;
    Options options;
    options.isa = list;
    options.keep_source = directory.path();
    LoadedModel model(graph, options, {}, testing::Scheduler::kReal);

    CHECK(torch::allclose(model({x})[0], expected, 1e-5, 1e-6));
    CHECK(model.report().source.find("chosen[0](") != std::string::npos);
    // What is asked of the machine is what the first of them needs.
    CHECK(model.table().cpu_features ==
          resolve_target(list.substr(0, list.find(','))).cpu_features);
    // The plan names the kernels of the first, and the files that have them.
    CHECK(model.report().plan.find("kernels0.cpp") != std::string::npos);
    CHECK(model.report().plan.find("kernels_1_") == std::string::npos);
  }
}

TEST_CASE("weights stand behind the library, aligned, each once", "[codegen][model]") {
  const at::Tensor w1 = torch::randn({32, 16});
  const at::Tensor b1 = torch::randn({32});
  const at::Tensor w2 = torch::randn({3, 32});
  const at::Tensor b2 = torch::randn({3});
  const Tensors sources = {w1, b1, w2, b2};
  const ir::Graph graph = graph_of(R"(graph mlp {
    input %x: f32[4, 16] user
    input %w1: f32[32, 16] parameter "fc1.weight"
    input %b1: f32[32] parameter "fc1.bias"
    input %w2: f32[3, 32] parameter "fc2.weight"
    input %b2: f32[3] buffer "fc2.bias"
    %t1: f32[16, 32]{1, 16} = aten.t.default(%w1) view(0:0)
    %a: f32[4, 32] = aten.addmm.default(%b1, %x, %t1, 1, 1)
    %r: f32[4, 32] = aten.relu.default(%a)
    %t2: f32[32, 3]{1, 32} = aten.t.default(%w2) view(0:0)
    %y: f32[4, 3] = aten.addmm.default(%b2, %r, %t2, 1, 1)
    output %y user
  })");
  LoadedModel model(graph, with_constants(sources), sources);
  const at::Tensor x = torch::randn({4, 16});

  const at::Tensor expected = at::linear(torch::relu(at::linear(x, w1, b1)), w2, b2);
  CHECK(torch::allclose(model({x})[0], expected));
  const KilnModel& table = model.table();
  REQUIRE(table.num_constants == 4);
  CHECK(std::string(table.constants[2].fqn) == "fc2.weight");
  CHECK(table.constants[3].kind == KILN_CONSTANT_BUFFER);
  const std::string file = read_file(model.library());
  KilnWeightsTrailer trailer{};
  std::memcpy(&trailer, file.data() + file.size() - sizeof(trailer), sizeof(trailer));
  CHECK(std::memcmp(trailer.magic, KILN_WEIGHTS_MAGIC, sizeof(trailer.magic)) == 0);
  CHECK(trailer.weights_bytes == table.weights_bytes);
  const char* weights = file.data() + file.size() - sizeof(trailer) - table.weights_bytes;
  CHECK((weights - file.data()) % 4096 == 0);
  for (int i = 0; i < 4; ++i) {
    const KilnConstant& constant = table.constants[i];
    const at::Tensor source = sources[static_cast<std::size_t>(i)];
    CHECK(constant.blob_offset % 64 == 0);
    CHECK(std::memcmp(weights + constant.blob_offset, source.data_ptr(), constant.bytes) == 0);
  }
}

TEST_CASE("constants that share storage have one place", "[codegen][model]") {
  const at::Tensor tied = torch::randn({16, 16});
  const at::Tensor other = torch::randn({16});
  const std::vector<ConstantData> constants = with_constants({tied, other, tied}).constants;

  const std::vector<std::uint64_t> offsets = weight_offsets(constants);

  CHECK(offsets == std::vector<std::uint64_t>{0, 1024, 0});
}

TEST_CASE("CG-09 inputs, views, duplicates and None are outputs", "[codegen][model]") {
  LoadedModel model(graph_of(R"(graph g {
    input %x: f32[4, 6] user
    %t: f32[6, 4]{1, 6} = aten.t.default(%x) view(0:0)
    %a: f32[4, 6] = aten.relu.default(%x)
    %row: f32[6]{1}@12 = aten.select.int(%a, 0, 2) view(0:0)
    output %x user
    output %t user
    output %a user
    output %a user
    output %row user
    output none gradient 0
  })"));
  const at::Tensor x = torch::randn({4, 6});

  const Tensors outputs = model({x});

  REQUIRE(outputs.size() == 6);
  CHECK(outputs[0].is_same(x));
  CHECK(outputs[1].data_ptr() == x.data_ptr());
  CHECK(torch::equal(outputs[1], x.t()));
  CHECK(torch::equal(outputs[2], torch::relu(x)));
  CHECK(outputs[3].is_same(outputs[2]));
  CHECK(torch::equal(outputs[4], torch::relu(x)[2]));
  CHECK(outputs[4].is_alias_of(outputs[2]));
  CHECK_FALSE(outputs[5].defined());
}

TEST_CASE("outputs of earlier runs keep their values", "[codegen][model]") {
  LoadedModel model(graph_of(R"(graph g {
    input %x: f32[5, 5] user
    %a: f32[5, 5] = aten.relu.default(%x)
    %b: f32[5, 5] = aten.mm.default(%a, %x)
    output %b user
    output %a user
  })"));
  const at::Tensor x = torch::randn({5, 5});
  const Tensors first = model({x});
  const at::Tensor copy = first[0].clone();

  model({x * 2});

  CHECK(torch::equal(first[0], copy));
  CHECK(torch::equal(first[1], torch::relu(x)));
}

TEST_CASE("large outputs are asked for on large pages", "[codegen][model]") {
  const std::int64_t size = GENERATE(2900, 290);  // 32 MiB and a little, and a hundredth of it.
  const std::string n = std::to_string(size);
  LoadedModel model(graph_of("graph g {\n  input %x: f32[" + n + ", 1] user\n  input %y: f32[1, " +
                             n + "] user\n  %a: f32[" + n + ", " + n +
                             "] = aten.mm.default(%x, %y)\n  output %a user\n}"));
  const at::Tensor x = torch::randn({size, 1});
  const at::Tensor y = torch::randn({1, size});

  CHECK(torch::equal(model({x, y})[0], torch::mm(x, y)));
  const bool asked = model.report().source.find("use_large_pages(m.at[") != std::string::npos;
  CHECK(asked == (size == 2900));
}

TEST_CASE("what a product made for updates alone is updated where it lies", "[codegen][model]") {
  // The second wants the product, too; the third's updates read it.
  const auto [more, output, in_place] = GENERATE(std::tuple("%g", "", true),
                                                 std::tuple("%g", "    output %m user\n", false),
                                                 std::tuple("%m", "", false));
  LoadedModel model(graph_of(std::string(R"(graph g {
    input %g: f32[4, 9] user
    input %i: i64[4] user
    input %a: f32[4, 5] user
    input %b: f32[5, 9] user
    %m: f32[4, 9] = aten.mm.default(%a, %b)
    %y: f32[4, 9] = aten.index_put.default(%m, [%i], )") +
                             more + ", true)\n    output %y user\n" + output + "  }"),
                    {},
                    {},
                    Scheduler::kReal);
  const at::Tensor g = torch::randn({4, 9});
  const at::Tensor i = torch::tensor({2, 0, 2, 3});
  const at::Tensor a = torch::randn({4, 5});
  const at::Tensor b = torch::randn({5, 9});
  const at::Tensor m = torch::mm(a, b);

  const Tensors results = model({g, i, a, b});
  const at::Tensor values = std::string(more) == "%m" ? m : g;
  CHECK(torch::allclose(results[0], torch::index_put(m, {i}, values, true)));
  CHECK((results.size() == 1 || torch::equal(results[1], m)));
  CHECK((model.report().arena_bytes == 0) == (in_place || results.size() == 2));
}

TEST_CASE("CG-10 mutated inputs are written at the end", "[codegen][model]") {
  LoadedModel model(graph_of(R"(graph g {
    input %x: f32[3, 3] user
    input %y: f32[3, 3] user
    %a: f32[3, 3] = aten.relu.default(%x)
    %b: f32[3, 3] = aten.mm.default(%a, %y)
    output %b mutation 0
    output %x mutation 1
    output %a user
  })"));
  const at::Tensor x0 = torch::randn({3, 3});
  const at::Tensor y0 = torch::randn({3, 3});
  const at::Tensor x = x0.clone();
  const at::Tensor y = y0.clone();

  const Tensors outputs = model({x, y});

  REQUIRE(outputs.size() == 1);
  CHECK(torch::equal(outputs[0], torch::relu(x0)));
  CHECK(torch::equal(x, torch::relu(x0).mm(y0)));
  CHECK(torch::equal(y, x0));
}

TEST_CASE("CG-11 sizes may differ from run to run", "[codegen][model]") {
  LoadedModel model(graph_of(R"(graph g {
    symbol %s0 in [0, 1024]
    input %x: f32[s0, 16] user
    input %w: f32[16, 8] user
    %a: f32[s0, 8] = aten.mm.default(%x, %w)
    %b: f32[s0, 8] = aten.relu.default(%a)
    %c: f32[8, s0]{1, 8} = aten.t.default(%b) view(0:0)
    %d: f32[s0, s0] = aten.mm.default(%b, %c)
    output %d user
  })"));
  const at::Tensor w = torch::randn({16, 8});

  for (const int rows : {5, 5, 1, 300, 2, 0}) {
    const at::Tensor x = torch::randn({rows, 16});
    const at::Tensor b = torch::relu(x.mm(w));
    CHECK(torch::allclose(model({x, w})[0], b.mm(b.t()), 1e-4, 1e-5));
  }
  CHECK(model.table().inputs[0].sizes[0] == -1);
  CHECK(model.table().inputs[0].sizes[1] == 16);
}

TEST_CASE("a failing call leaves neither outputs nor a broken instance", "[codegen][model]") {
  LoadedModel model(graph_of(R"(graph g {
    input %x: f32[2, 2] user
    input %y: f32[2, 2] user
    %a: f32[2, 2] = aten.relu.default(%x)
    %b: f32[2, 2] = aten.mm.default(%a, %y)
    output %a user
    output %b user
  })"));
  const at::Tensor x = torch::randn({2, 2});
  Tensors outputs;

  const int code = model.run({x, torch::randn({7, 2})}, &outputs);

  CHECK(code != 0);
  CHECK(outputs.empty());
  CHECK(torch::equal(model({x, x})[1], torch::relu(x).mm(x)));
}

}  // namespace
}  // namespace kiln::codegen
