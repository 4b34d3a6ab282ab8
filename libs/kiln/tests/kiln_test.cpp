#include "kiln/kiln.hpp"

#include <torch/script.h>
#include <torch/torch.h>

#include <optional>

#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

using testing::contains;

struct Scratch {
  TemporaryDirectory directory;
  CompileOptions options;
  Scratch() { options.cache_directory = directory.path() / "cache"; }
  std::filesystem::path operator/(const std::string& name) const { return directory.path() / name; }
};

TEST_CASE("FA-01 FA-02 a function is compiled to a library and loaded for a device",
          "[kiln][kiln]") {
  const Scratch scratch;
  const torch::Tensor x = torch::randn({4, 8}, torch::requires_grad());
  // Sorting is libtorch's, and would be differentiated if grad mode were on in the model.
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].exp() + 1, std::get<0>(in[0].sort(1))};
  };

  GraphReport report;
  const auto path =
      aot_compile(export_program(function, {x}), scratch / "f.so", scratch.options, &report);
  REQUIRE(report.extern_calls == 1);

  CHECK(path == scratch / "f.so");
  Model model = load(path, {.instances = 1, .device = "cpu"});
  const torch::Tensor other = torch::randn({4, 8}, torch::requires_grad());
  const Tensors outputs = model.run({other}), expected = function({other});
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(torch::allclose(outputs[i], expected[i], 1e-4, 1e-5));
    CHECK(expected[i].requires_grad());
    CHECK_FALSE(outputs[i].requires_grad());
  }
  CHECK_THROWS_AS(load(path, {.device = "abacus"}), Error);
}

TEST_CASE("FA-04 a module is exported, compiled to a package, loaded and run", "[kiln][kiln]") {
  const Scratch scratch;
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::GELU(), torch::nn::Linear(16, 3));
  const torch::Tensor x = torch::randn({4, 8});

  const ExportedProgram program = export_program(net, {x});
  const auto package = aot_compile(program, scratch / "net.pt2", scratch.options);
  Model model = load(package);

  const torch::NoGradGuard no_grad;
  CHECK(torch::allclose(model.run({x})[0], net->forward(x), 1e-4, 1e-5));
  CHECK(model.constants().size() == 4);
}

TEST_CASE("a package refuses a tensor that begins elsewhere if it is read by place",
          "[kiln][kiln]") {
  const Scratch scratch;
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].as_strided({2, 2}, {2, 1}, 3) * 2, in[1] + 1};
  };
  const torch::Tensor memory = torch::randn({16});
  const torch::Tensor x = memory.slice(0, 0, 8), moved = memory.slice(0, 2, 10);
  Model model = load(aot_compile(
      export_program(function, {x, torch::randn({8})}), scratch / "f.pt2", scratch.options));

  CHECK(torch::allclose(model.run({x, moved})[0], function({x, moved})[0]));
  CHECK(torch::allclose(model.run({x, moved})[1], moved + 1));
  CHECK_THROWS_WITH(model.run({moved, x}),
                    contains("input 0 must begin at element 0 of its storage"));
}

TEST_CASE("a TorchScript module is exported, compiled and run", "[kiln][kiln]") {
  const Scratch scratch;
  torch::jit::Module module("scripted");
  module.register_parameter("weight", torch::randn({8, 3}), false);
  module.define(R"(
    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(x, self.weight).relu()
  )");
  const torch::Tensor x = torch::randn({4, 8});

  const auto package =
      aot_compile(export_program(module, {x}), scratch / "scripted.pt2", scratch.options);
  Model model = load(package);

  CHECK(torch::allclose(model.run({x})[0], module.forward({x}).toTensor(), 1e-4, 1e-5));
}

TEST_CASE("a program from before dispatch is compiled like any other", "[kiln][kiln]") {
  const Scratch scratch;
  const torch::Tensor x = torch::randn({4, 8});
  const auto function = [](const Tensors& in) {
    const torch::NoGradGuard no_grad;
    return Tensors{at::matmul(in[0], in[0].t()).softmax(1)};
  };

  const auto package = aot_compile(export_program(function, {x}, {.pre_dispatch = true}),
                                   scratch / "whole.pt2",
                                   scratch.options);

  CHECK(torch::allclose(load(package).run({x})[0], function({x})[0], 1e-4, 1e-5));
}

TEST_CASE("a bare library is a model too", "[kiln][kiln]") {
  const Scratch scratch;
  const torch::Tensor x = torch::randn({4, 8});

  const auto library = aot_compile(
      export_program([](const Tensors& in) { return Tensors{in[0].exp(), in[0].sum({1})}; }, {x}),
      scratch / "f.so",
      scratch.options);

  Model model = load(library);
  const Tensors outputs = model.run({x});
  REQUIRE(outputs.size() == 2);
  CHECK(torch::allclose(outputs[0], x.exp()));
  CHECK(torch::allclose(outputs[1], x.sum({1}), 1e-4, 1e-5));
}

TEST_CASE("FA-05 a model runs many inputs, and new weights take effect", "[kiln][kiln]") {
  const Scratch scratch;
  torch::nn::Linear linear(4, 2);
  const torch::Tensor x = torch::randn({3, 4});
  Model model =
      load(aot_compile(export_program(linear, {x}), scratch / "linear.pt2", scratch.options));

  const std::vector<Tensors> many = model.run_multiple({{x}, {x * 2}, {x * 3}});
  const torch::NoGradGuard no_grad;
  CHECK(torch::allclose(many[2][0], linear(x * 3), 1e-4, 1e-5));

  model.update_constants({{"weight", torch::ones({2, 4})}, {"bias", torch::zeros({2})}},
                         {.full = true});
  CHECK(torch::allclose(model.run({x})[0], x.sum(1, true).expand({3, 2}), 1e-4, 1e-5));
}

TEST_CASE("results that are constants outlive the model, and can be written", "[kiln][kiln]") {
  const Scratch scratch;
  const torch::Tensor weight = torch::randn({4, 8});
  const torch::Tensor x = torch::randn({8});
  const auto function = [&](const Tensors& in) {
    return Tensors{weight + in[0], weight, weight.t(), weight.exp()};
  };
  const auto package =
      aot_compile(export_program(function, {x}), scratch / "f.pt2", scratch.options);

  std::optional<Model> model = load(package);
  const Tensors outputs = model->run({x});
  for (const torch::Tensor& output : outputs) {
    output.add_(1);
  }
  const Tensors again = model->run({x});
  model.reset();

  const Tensors expected = function({x});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("result " << i);
    CHECK(torch::allclose(outputs[i], expected[i] + 1, 1e-4, 1e-5));
    CHECK(torch::allclose(again[i], expected[i], 1e-4, 1e-5));
    CHECK(again[i].strides() == expected[i].strides());
  }
}

TEST_CASE("many megabytes of weights are written while the compiler works", "[kiln][kiln]") {
  const Scratch scratch;
  torch::nn::Linear linear(2048, 2304);
  const torch::Tensor x = torch::randn({3, 2048});
  const ExportedProgram program = export_program(linear, {x});
  const auto folder = scratch / "here";
  std::filesystem::create_directory(folder);

  CompileOptions wrong = scratch.options;
  wrong.isa = "abacus";
  CHECK_THROWS_AS(aot_compile(program, folder / "linear.pt2", wrong), Error);
  CHECK(std::filesystem::is_empty(folder));

  Model model = load(aot_compile(program, folder / "linear.pt2", scratch.options));

  const torch::NoGradGuard no_grad;
  CHECK(torch::allclose(model.run({x})[0], linear(x), 1e-4, 1e-4));
}

TEST_CASE("constants that were folded follow new weights", "[kiln][kiln]") {
  const Scratch scratch;
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)),
                            torch::nn::BatchNorm2d(8),
                            torch::nn::ReLU());
  net->eval();
  const torch::Tensor x = torch::randn({2, 3, 10, 10});
  Model model = load(aot_compile(export_program(net, {x}), scratch / "net.pt2", scratch.options));
  const torch::NoGradGuard no_grad;
  CHECK(torch::allclose(model.run({x})[0], net->forward(x), 1e-4, 1e-5));

  std::unordered_map<std::string, torch::Tensor> weights;
  for (const auto& parameter : net->named_parameters()) {
    parameter.value().add_(torch::rand_like(parameter.value()));
    weights.emplace(parameter.key(), parameter.value());
  }
  model.update_constants({weights.begin(), weights.end()});
  CHECK(torch::allclose(model.run({x})[0], net->forward(x), 1e-4, 1e-5));
}

TEST_CASE("weights of a model whose sizes vary can be replaced", "[kiln][kiln]") {
  const Scratch scratch;
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 32, 3).padding(1)),
                            torch::nn::ReLU());
  const torch::Tensor x = torch::randn({2, 3, 10, 10});
  exporter::ExportOptions varying;
  varying.dynamic_dims = {{.input = std::size_t{0}, .dim = 0, .name = "batch", .max = 8}};
  Model model =
      load(aot_compile(export_program(net, {x}, varying), scratch / "net.pt2", scratch.options));
  const torch::NoGradGuard no_grad;

  net[0]->as<torch::nn::Conv2d>()->weight.mul_(2);
  model.update_constants({{"0.weight", net[0]->as<torch::nn::Conv2d>()->weight}});

  const torch::Tensor other = torch::randn({5, 3, 10, 10});
  CHECK(torch::allclose(model.run({other})[0], net->forward(other), 1e-4, 1e-5));
}

TEST_CASE("folded constants are stored with the weights that they were computed from",
          "[kiln][kiln]") {
  const Scratch scratch;
  const torch::Tensor x = torch::randn({2, 64, 10, 10});
  const torch::NoGradGuard no_grad;
  for (const char* name : {"first.pt2", "second.pt2", "third.so"}) {
    INFO(name);
    torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(64, 256, 3).padding(1)),
                              torch::nn::BatchNorm2d(256));
    net->eval();
    net[1]->as<torch::nn::BatchNorm2d>()->running_var.uniform_(0.5, 2);
    GraphReport report;
    const auto path =
        aot_compile(export_program(net, {x}), scratch / name, scratch.options, &report);
    // One library serves them all.
    CHECK(report.cache_hit == (std::string_view(name) != "first.pt2"));
    // Larger than the code: without what is folded, this much and the code.
    constexpr std::size_t kWeights = 4 * 256 * 64 * 3 * 3;
    CHECK(std::filesystem::file_size(path) > 2 * kWeights);
    Model model = load(path);
    CHECK(torch::allclose(model.run({x})[0], net->forward(x), 1e-3, 1e-4));
  }
}

TEST_CASE("an input of another shape is refused by name", "[kiln][kiln]") {
  const Scratch scratch;
  Model model = load(aot_compile(
      export_program([](const Tensors& in) { return Tensors{in[0] + 1}; }, {torch::ones({3})}),
      scratch / "f.pt2",
      scratch.options));

  CHECK_THROWS_WITH(model.run({torch::ones({4})}), contains("expected"));
}

TEST_CASE("the same program compiled again comes from the cache", "[kiln][kiln]") {
  const Scratch scratch;
  const ExportedProgram program = export_program(
      [](const Tensors& in) { return Tensors{in[0].relu() * 3}; }, {torch::ones({5})});
  GraphReport first, second;

  aot_compile(program, scratch / "a.pt2", scratch.options, &first);
  aot_compile(program, scratch / "b.pt2", scratch.options, &second);

  CHECK_FALSE(first.cache_hit);
  CHECK(second.cache_hit);
  CHECK(torch::equal(load(scratch / "b.pt2").run({torch::ones({5})})[0], torch::full({5}, 3.0)));
}

TEST_CASE("FA-12 an archive goes out and comes back, and is compiled again", "[kiln][kiln]") {
  const Scratch scratch;
  torch::nn::Linear linear(4, 2);
  const torch::Tensor x = torch::randn({3, 4});

  save_program(export_program(linear, {x}), scratch / "program.pt2");
  const ExportedProgram again = load_program(scratch / "program.pt2");

  CHECK(torch::equal(again.weights.at("weight"), linear->weight));
  Model model = load(aot_compile(again, scratch / "compiled.pt2", scratch.options));
  const torch::NoGradGuard no_grad;
  CHECK(torch::allclose(model.run({x})[0], linear(x), 1e-4, 1e-5));
}

TEST_CASE("CG-08 operators that neither a kernel nor the shim knows run all the same",
          "[kiln][kiln]") {
  const Scratch scratch;
  const torch::Tensor x = torch::randn({5, 7});
  const auto function = [](const Tensors& in) {
    return Tensors{torch::celu(torch::hardshrink(in[0], 0.3), 0.7).cumsum(1)};
  };

  Model package =
      load(aot_compile(export_program(function, {x}), scratch / "f.pt2", scratch.options));
  Model library =
      load(aot_compile(export_program(function, {x}), scratch / "f.so", scratch.options));
  const Function fast = compile(function, scratch.options);
  fast.prepare({x});

  const torch::Tensor expected = function({x})[0];
  CHECK(torch::allclose(package.run({x})[0], expected, 1e-5, 1e-6));
  CHECK(torch::allclose(library.run({x})[0], expected, 1e-5, 1e-6));
  CHECK(torch::allclose(fast({x})[0], expected, 1e-5, 1e-6));
}

TEST_CASE("a name that is neither a package nor a library is refused", "[kiln][kiln]") {
  const ExportedProgram program =
      export_program([](const Tensors& in) { return Tensors{in[0] * 1}; }, {torch::ones({1})});

  CHECK_THROWS_WITH(aot_compile(program, "model.onnx"), contains(".pt2"));
  CHECK_THROWS_AS(load("no/such/model.pt2"), Error);
}

}  // namespace
}  // namespace kiln
