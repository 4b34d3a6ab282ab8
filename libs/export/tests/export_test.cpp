#include "kiln/export/export.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "kiln/base/error.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/testing/catch2.hpp"
#include "programs.hpp"

namespace kiln::exporter {
namespace {

using testing::contains;

// Convolution, batch norm, activation, and a count of calls.
struct NetworkImpl : torch::nn::Module {
  NetworkImpl()
      : convolution(register_module("convolution", torch::nn::Conv2d(1, 2, 1))),
        norm(register_module("norm", torch::nn::BatchNorm2d(2))) {}

  torch::Tensor forward(const torch::Tensor& x) { return torch::relu(norm(convolution(x))); }

  torch::nn::Conv2d convolution;
  torch::nn::BatchNorm2d norm;
};
TORCH_MODULE(Network);

TEST_CASE("EX-01 test_make_fx: the graph computes the function on other inputs too",
          "[export][export]") {
  const auto function = [](const Tensors& in) {
    return Tensors{(in[0] * 2 + in[1]).tanh().sum(1), in[0].t()};
  };
  const ExportedProgram program =
      export_program(function, {torch::randn({3, 4}), torch::randn({4})});
  const Tensors other = {torch::randn({3, 4}), torch::randn({4})};

  const Tensors results = interpret(program, other);

  const Tensors expected = function(other);
  REQUIRE(results.size() == 2);
  CHECK(torch::allclose(results[0], expected[0]));
  CHECK(torch::equal(results[1], expected[1]));
}

TEST_CASE("EX-02 test_make_fx_grad: gradients inside the function are operators of the graph",
          "[export][export]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor x = in[0].detach().requires_grad_();
    const torch::Tensor y = (x * x * x).sum();
    const torch::Tensor first = torch::autograd::grad({y}, {x}, {}, true, true)[0];
    return torch::autograd::grad({first.sum()}, {x});
  };
  const ExportedProgram program = export_program(function, {torch::randn({5})});
  const torch::Tensor x = torch::randn({5});

  CHECK(torch::allclose(interpret(program, {x})[0], 6 * x, 1e-5, 1e-5));
}

TEST_CASE("EX-05 test_make_fx_functionalize: in-place operators become functional ones",
          "[export][export]") {
  const ExportedProgram program = export_program(
      [](const Tensors& in) { return Tensors{(in[0] + 1).relu_()}; }, {torch::randn({3})});

  const std::vector<std::string> targets = targets_of(program.graph);
  CHECK(has(targets, "aten.relu.default"));
  CHECK_FALSE(has(targets, "aten.relu_.default"));
}

TEST_CASE("EX-10 test_meta_tensor_inplace_op: every value carries the geometry that the run had",
          "[export][export]") {
  const ExportedProgram program = export_program(
      [](const Tensors& in) {
        torch::Tensor y = in[0].t().add(1);
        y.select(0, 1).relu_();
        return Tensors{y.contiguous().view({-1}), y};
      },
      {torch::randn({3, 4})});

  const capture::Interpreter interpreter(program.graph, {.check_metadata = true});
  CHECK(interpreter.run(program.graph_inputs({torch::randn({3, 4})})).size() == 2);
}

TEST_CASE(
    "EX-11 test_aot_module_simplified_fake_tensor_gm_raises: a captured meta tensor is refused",
    "[export][export]") {
  const torch::Tensor fake = torch::empty({3}, torch::kMeta);

  CHECK_THAT(message_of([&] {
               (void)export_program([&](const Tensors& in) { return Tensors{in[0], fake + 1}; },
                                    {torch::rand({3})});
             }),
             contains("Unexpected fake"));
}

TEST_CASE("EX-17 values and shapes that depend on data are refused, each in its own words",
          "[export][export]") {
  const auto refused = [](const TensorFunction& function) {
    return message_of([&] { (void)export_program(function, {torch::rand({3})}); });
  };

  CHECK_THAT(refused([](const Tensors& in) { return Tensors{in[0] * in[0].sum().item<float>()}; }),
             contains("unsupported: the program reads a tensor's value with item() "
                      "(aten._local_scalar_dense.default)"));
  for (const auto& [target, function] : std::vector<std::pair<std::string, TensorFunction>>{
           {"aten.nonzero.default", [](const Tensors& in) { return Tensors{in[0].nonzero()}; }},
           {"aten.masked_select.default",
            [](const Tensors& in) { return Tensors{in[0].masked_select(in[0] > 0)}; }},
           {"aten.index.Tensor",
            [](const Tensors& in) { return Tensors{in[0].index({in[0] > 0})}; }}}) {
    CHECK_THAT(refused(function),
               contains("unsupported: " + target + " has a data-dependent output shape") &&
                   contains("torch::where(mask, a, b)"));
  }
}

TEST_CASE("EX-47 complex tensors are traced, conjugate views too", "[export][export]") {
  const auto function = [](const Tensors& in) {
    return Tensors{torch::matmul(in[0], in[0].conj()).abs().sum()};
  };
  const ExportedProgram program =
      export_program(function, {torch::randn({3, 3}, torch::kComplexFloat)});
  const torch::Tensor x = torch::randn({3, 3}, torch::kComplexFloat);

  CHECK(torch::allclose(interpret(program, {x})[0], function({x})[0]));
}

TEST_CASE("conj and neg bits of views, read and written, are in the graph", "[export][export]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor negative = torch::imag(in[0].conj());
    const torch::Tensor copy = in[0].clone();
    torch::imag(copy.conj()).mul_(3);
    copy.conj().add_(torch::view_as_complex(in[1]));
    return Tensors{negative * 2, copy, negative};
  };
  const auto inputs = [] {
    return Tensors{torch::randn({3}, torch::kComplexFloat), torch::randn({3, 2})};
  };
  const ExportedProgram program = export_program(function, inputs());
  const Tensors others = inputs();
  REQUIRE(torch::imag(others[0].conj()).is_neg());

  const Tensors results = interpret(program, others);

  const Tensors expected = function(others);
  REQUIRE(results.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(torch::allclose(results[i], expected[i]));
  }
}

TEST_CASE("in-place views change what a tensor is from then on", "[export][export]") {
  const auto function = [](const Tensors& in) {
    torch::Tensor y = in[0] * 2;
    const torch::Tensor before = y.view({6});
    y.t_().unsqueeze_(0);
    y.add_(in[1]);
    y.squeeze_(0).transpose_(0, 1);
    return Tensors{y, before + 1};
  };
  const auto inputs = [] { return Tensors{torch::randn({2, 3}), torch::randn({3, 2})}; };
  const ExportedProgram program = export_program(function, inputs());
  const Tensors others = inputs();

  const Tensors results = interpret(program, others);

  REQUIRE(results[0].sizes() == at::IntArrayRef({2, 3}));
  CHECK(torch::equal(results[0], function(others)[0]));
  CHECK(torch::equal(results[1], function(others)[1]));
}

TEST_CASE(
    "EX-12 test_lift_fresh_copy_in_graph: a tensor made inside the function is a constant or "
    "computed, and copied on use",
    "[export][export]") {
  const auto function = [](const Tensors& in) {
    torch::Tensor literal = torch::tensor({1.0F, 2.0F, 3.0F});
    literal.add_(1);
    return Tensors{in[0] + literal};
  };
  const ExportedProgram program = export_program(function, {torch::zeros({3})});

  for (int call = 0; call < 2; ++call) {
    CHECK(torch::equal(interpret(program, {torch::zeros({3})})[0],
                       torch::tensor({2.0F, 3.0F, 4.0F})));
  }
}

TEST_CASE("EX-19 inputs are parameters, buffers, constants, then the user's", "[export][export]") {
  Network network;
  const torch::Tensor extra = torch::rand({1});
  const torch::Tensor mean = network->norm->running_mean.clone();
  const torch::Tensor x = torch::randn({2, 1, 3, 3});
  const torch::Tensor x_before = x.clone();

  const ExportedProgram program = export_module(
      network.ptr(), [&](const Tensors& in) { return Tensors{network(in[0]) * extra}; }, {x});

  std::string kinds;
  std::vector<std::string> names;
  for (const ir::Input& input : program.graph.inputs()) {
    kinds += std::string(ir::to_string(input.kind)) + " ";
    names.push_back(input.name);
  }
  CHECK(kinds == "parameter parameter parameter parameter buffer buffer buffer constant user ");
  CHECK(names == std::vector<std::string>{"convolution.weight",
                                          "convolution.bias",
                                          "norm.weight",
                                          "norm.bias",
                                          "norm.running_mean",
                                          "norm.running_var",
                                          "norm.num_batches_tracked",
                                          "constant0",
                                          "input0"});
  CHECK(program.weights.at("constant0").is_same(extra));
  CHECK(program.weights.at("norm.weight").is_same(network->norm->weight));
  // Nothing has changed by exporting.
  CHECK(torch::equal(network->norm->running_mean, mean));
  CHECK(torch::equal(x, x_before));
}

TEST_CASE("EX-19 updated buffers come before the user's outputs", "[export][export]") {
  Network network;
  const torch::Tensor x = torch::randn({2, 1, 3, 3});
  const ExportedProgram program =
      export_module(network.ptr(), [&](const Tensors& in) { return Tensors{network(in[0])}; }, {x});

  const Tensors results = interpret(program, {x});
  const torch::Tensor expected = network(x);

  REQUIRE(results.size() == 4);
  const GraphSignature signature = program.signature();
  CHECK(signature.buffers_to_mutate.size() == 3);
  CHECK(torch::allclose(results[0], network->norm->running_mean));
  CHECK(torch::allclose(results[1], network->norm->running_var));
  CHECK(torch::allclose(results[2], network->norm->num_batches_tracked));
  CHECK(torch::allclose(results[3], expected, 1e-5, 1e-6));
}

TEST_CASE(
    "EX-19 test_aot_export_forward_mutation_no_buffer_mut: an updated user input is an output and "
    "in the signature",
    "[export][export]") {
  const ExportedProgram program = export_program(
      [](const Tensors& in) {
        in[0].add_(4);
        return Tensors{in[0].sum()};
      },
      {torch::randn({3})});
  const torch::Tensor x = torch::randn({3});

  const Tensors results = interpret(program, {x});

  REQUIRE(results.size() == 2);
  CHECK(torch::allclose(results[0], x + 4));
  CHECK(program.signature().user_inputs_to_mutate.begin()->second == "input0");
}

TEST_CASE("EX-20 parameters that the program does not use are inputs all the same",
          "[export][export]") {
  const torch::Tensor used = torch::rand({2});
  const torch::Tensor unused = torch::rand({2});

  const ExportedProgram program =
      export_program([&](const Tensors& in) { return Tensors{in[0] * used}; },
                     {{.name = "unused", .tensor = unused}, {.name = "used", .tensor = used}},
                     {torch::rand({2})});

  CHECK(program.signature().parameters == std::vector<std::string>{"unused", "used"});
  CHECK(program.signature().inputs_to_parameters.at("p_used") == "used");
}

TEST_CASE(
    "EX-21 EX-22 test_aot_export_module_joint: a joint graph returns buffers, outputs, then "
    "gradients",
    "[export][export]") {
  Network network;
  const torch::Tensor x = torch::randn({2, 1, 3, 3});
  const ExportedProgram program = export_module(network.ptr(),
                                                [&](const Tensors& in) {
                                                  const torch::Tensor y = network(in[0]);
                                                  return Tensors{y.sum(), y.detach()};
                                                },
                                                {x},
                                                {.joint = true, .loss_index = 0});

  CHECK(program.graph.inputs().size() == 8);
  REQUIRE(program.graph.outputs().size() == 9);
  const Tensors results = interpret(program, {x});
  network(x).sum().backward();
  const Tensors gradients(results.begin() + 5, results.end());
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(torch::allclose(gradients[i], network->parameters()[i].grad(), 1e-4, 1e-5));
  }

  const GraphSignature signature = program.signature();
  REQUIRE(signature.backward);
  CHECK(signature.backward->gradients_to_parameters.size() == 4);
  // EX-22: the loss itself, where PyTorch names the first updated buffer.
  CHECK(signature.backward->loss_output == signature.user_outputs[0]);
}

TEST_CASE(
    "EX-23 EX-24 EX-25 EX-26 test_aot_export_multiple_outputs_require_grad_banned: a joint export "
    "needs one scalar loss that reaches every parameter",
    "[export][export]") {
  const torch::Tensor weight = torch::rand({3}).requires_grad_();
  const torch::Tensor other = torch::rand({3}).requires_grad_();
  const auto joint = [&](const TensorFunction& function, std::optional<std::uint32_t> loss) {
    return message_of([&] {
      (void)export_program(
          function,
          {{.name = "weight", .tensor = weight}, {.name = "other", .tensor = other}},
          {torch::rand({3})},
          {.joint = true, .loss_index = loss});
    });
  };
  const auto both = [&](const Tensors& in) { return in[0] * weight * other; };

  CHECK_THAT(joint([&](const Tensors& in) { return Tensors{both(in).sum()}; }, std::nullopt),
             contains("loss_index"));
  CHECK_THAT(
      joint([&](const Tensors& in) { return Tensors{both(in).sum(), both(in)}; }, 0),
      contains(
          "Found an output of the forward that requires gradients, that was not the scalar loss"));
  CHECK_THAT(joint([&](const Tensors& in) { return Tensors{in[0].sum()}; }, 0),
             contains("does not require gradients"));
  CHECK_THAT(joint([&](const Tensors& in) { return Tensors{both(in)}; }, 0), contains("[3]"));
  CHECK_THAT(joint([&](const Tensors& in) { return Tensors{(in[0] * weight).sum()}; }, 0),
             contains("Found a parameter that did not receive a gradient: other"));
}

TEST_CASE(
    "EX-28 test_aot_export_metadata_mutation_banned: a change of an input's geometry is refused",
    "[export][export]") {
  const auto function = [](const Tensors& in) {
    in[0].t_();
    return Tensors{(in[0] + 1).sum()};
  };
  const Tensors inputs = {torch::rand({2, 3})};
  const auto refusal = contains("Found an input that received a metadata mutation");

  CHECK_THAT(message_of([&] { (void)export_program(function, inputs); }), refusal);
  CHECK_THAT(message_of([&] { (void)export_program(function, inputs, {.pre_dispatch = true}); }),
             refusal);
  CHECK_THAT(message_of([&] { (void)export_joint_simple(function, inputs); }), refusal);
}

TEST_CASE(
    "EX-29 test_aot_export_input_mutation_on_parameter_banned: updating a parameter is refused "
    "only in a joint export",
    "[export][export]") {
  const torch::Tensor weight = torch::rand({3}).requires_grad_();
  const std::vector<NamedTensor> named = {{.name = "weight", .tensor = weight}};
  const auto function = [&](const Tensors& in) {
    {
      const torch::NoGradGuard no_grad;
      weight.add_(1);
    }
    return Tensors{(in[0] * weight).sum()};
  };

  const ExportedProgram program = export_program(function, named, {torch::rand({3})});
  CHECK(program.signature().parameters_to_mutate.begin()->second == "weight");
  CHECK_THAT(message_of([&] {
               (void)export_program(
                   function, named, {torch::rand({3})}, {.joint = true, .loss_index = 0});
             }),
             contains("Found a graph input that requires gradients, and received a mutation"));
}

TEST_CASE(
    "EX-30 EX-31 test_aot_export_synthetic_bases_banned, _input_dupes_banned: a mutated input that "
    "shares memory with another is refused",
    "[export][export]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(2);
    return Tensors{in[0].sum() + in[1].sum()};
  };
  const torch::Tensor x = torch::rand({4});
  const ExportOptions options{.pre_dispatch = GENERATE(false, true)};

  CHECK_THAT(
      message_of([&] { (void)export_program(function, {x, x}, options); }),
      contains(
          "Encountered duplicated inputs that are mutated in the graph you are trying to export"));
  CHECK_THAT(
      message_of([&] { (void)export_program(function, {x, x.view({2, 2})}, options); }),
      contains(
          "Encountered aliased inputs that are mutated in the graph you are trying to export"));
}

TEST_CASE("EX-34 a simple export without gradients has no calling convention", "[export][export]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0] * in[1]}; };

  const ir::Graph graph = export_joint_simple(function, {torch::rand({3}), torch::rand({3})});

  CHECK(graph.inputs().size() == 2);
  CHECK(graph.outputs().size() == 1);
  CHECK_THAT(message_of([] {
               (void)export_joint_simple([](const Tensors& in) { return Tensors{in[0].view({3})}; },
                                         {torch::rand({3})});
             }),
             contains("an output aliases an input"));
  CHECK_THAT(message_of([] {
               (void)export_joint_simple(
                   [](const Tensors& in) {
                     in[0].add_(1);
                     return Tensors{in[0] * 2};
                   },
                   {torch::rand({3})});
             }),
             contains("mutates an input"));
}

TEST_CASE(
    "EX-35 test_aot_export_simplified_basic: a simple joint graph takes tangents and returns "
    "gradients",
    "[export][export]") {
  const auto leaf = [] { return torch::rand({3}, torch::requires_grad()); };
  const torch::Tensor x = torch::rand({3}), y = torch::rand({3}), tangent = torch::rand({3});

  const ir::Graph graph = export_joint_simple(
      [](const Tensors& in) { return Tensors{in[0] * in[1]}; }, {leaf(), leaf()});

  REQUIRE(graph.inputs().size() == 3);
  CHECK(graph.inputs()[2].kind == ir::InputKind::kTangent);
  const Tensors results = capture::Interpreter(graph).run({x, y, tangent});
  REQUIRE(results.size() == 3);
  CHECK(torch::allclose(results[0], x * y));
  CHECK(torch::allclose(results[1], tangent * y));
  CHECK(torch::allclose(results[2], tangent * x));
}

TEST_CASE("EX-44 a module is exported through the function that calls it", "[export][export]") {
  torch::nn::Sequential network(
      torch::nn::Linear(4, 8), torch::nn::ReLU(), torch::nn::Linear(8, 2));
  const torch::Tensor x = torch::randn({3, 4});
  const ExportedProgram program = export_module(
      network.ptr(), [&](const Tensors& in) { return Tensors{network->forward(in[0])}; }, {x});

  CHECK(program.signature().parameters ==
        std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"});
  CHECK(torch::allclose(interpret(program, {x})[0], network->forward(x), 1e-5, 1e-6));
  CHECK_THAT(
      message_of([] { (void)export_module(nullptr, [](const Tensors& in) { return in; }, {}); }),
      contains("there is no module"));
}

TEST_CASE("a program is expanded down to core ATen", "[export][export]") {
  const at::Tensor weight = torch::randn({4});
  const auto function = [weight](const Tensors& in) {
    return Tensors{at::hardswish(in[0] * weight), at::softplus(in[0]).addcmul(in[0], in[0])};
  };
  const at::Tensor x = torch::randn({2, 4});
  const ExportedProgram program = export_program(function, {x});

  const ExportedProgram core = run_decompositions(program);

  CHECK(has(targets_of(program.graph), "aten.hardswish.default"));
  for (const std::string& target : targets_of(core.graph)) {
    CAPTURE(target);
    CHECK(ir::is_core_aten(target));
  }
  const Tensors expected = interpret(program, {x});
  const Tensors found = interpret(core, {x});
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(torch::allclose(found[i], expected[i], 1e-5, 1e-6));
  }
}

}  // namespace
}  // namespace kiln::exporter
