// Families C and O: what goes in and comes out, modules, autocast and random numbers.

#include <ATen/autocast_mode.h>

#include "every_way.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::testing {
namespace {

using autograd_dispatch::dispatch;
using autograd_dispatch::trace_joint;

TEST_CASE("AD-12 test_non_tensor_and_none_inputs: an undefined tensor keeps its place",
          "[conformance][C]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0] * (in[1].defined() ? 3 : 2), torch::Tensor()};
  };

  check_every_way(function, [](bool requires_grad) {
    return Inputs(
        Tensors{torch::ones({3, 3}, torch::requires_grad(requires_grad)), torch::Tensor()});
  });
}

TEST_CASE("AD-13 AD-60 test_single_output: one output", "[conformance][C]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0] + in[1]}; };

  check_every_way(function, leaves({{3, 3}, {3, 3}}));
}

TEST_CASE("AD-13 test_multi_output: several outputs", "[conformance][C]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0] + in[1], in[0] - in[1]}; };

  check_every_way(function, leaves({{3, 3}, {3, 3}}));
}

TEST_CASE("AD-13 test_multi_output_list: as many outputs as the input has rows",
          "[conformance][C]") {
  const auto function = [](const Tensors& in) {
    Tensors outputs;
    for (const torch::Tensor& row : in[0].unbind(0)) {
      outputs.push_back(row + in[1]);
    }
    return outputs;
  };

  check_every_way(function, leaves({{3, 3}, {3}}));
}

TEST_CASE(
    "AD-12 test_input_mutation_simple_with_none_and_nontensor: a written input beside an undefined "
    "one",
    "[conformance][C]") {
  const auto function = [](const Tensors& in) { return Tensors{in[1] * in[0].mul_(2)}; };

  check_every_way(function, [](bool requires_grad) {
    const torch::Tensor a = torch::ones({3}, torch::requires_grad(requires_grad));
    const torch::Tensor b = torch::ones({3}, torch::requires_grad(requires_grad));
    return Inputs({a, b}, {a + 1, b, torch::Tensor()});
  });
}

TEST_CASE("AD-13 AD-62 test_output_dict: an input returned twice, and beside a result",
          "[conformance][C]") {
  const auto twice = [](const Tensors& in) { return Tensors{in[0], in[0]}; };
  const auto beside = [](const Tensors& in) { return Tensors{in[0], in[1] + in[0]}; };

  check_every_way(twice, leaves({{3, 3}}));
  check_every_way(beside, leaves({{3}, {3}}));
}

TEST_CASE("AD-09 test_list_codegen: a compiler gets its inputs as a list that it may empty",
          "[conformance][C]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].sin() * in[1].cos() * in[2].sin()};
  };
  const auto emptying = [](const ir::Graph& graph) {
    return [run = autograd_dispatch::interpret(graph)](Tensors inputs) {
      Tensors taken = std::move(inputs);
      return run(std::move(taken));
    };
  };
  const auto compiled = [&](const Tensors& in) {
    return dispatch(trace_joint(function, in),
                    {.forward = emptying, .backward = emptying, .partition = by_minimum_cut})(in);
  };

  check_like_eager(function, compiled, [] { return leaves({{5}, {5}, {5}})(true); });
}

TEST_CASE("AD-14 test_module: gradients land in the module's own parameters", "[conformance][C]") {
  torch::nn::Sequential module(torch::nn::Linear(32, 32), torch::nn::ReLU());
  const torch::Tensor x = torch::randn({32, 32});
  const torch::Tensor expected = module->forward(x);
  expected.sum().backward();
  Tensors gradients;
  for (torch::Tensor& parameter : module->parameters()) {
    gradients.push_back(parameter.grad().clone());
    parameter.mutable_grad().reset();
  }

  const TensorFunction forward = [&](const Tensors& in) { return Tensors{module->forward(in[0])}; };
  for (const TensorFunction& compiled : {interpreted(forward), generated(forward)}) {
    const torch::Tensor out = compiled({x})[0];
    out.sum().backward();

    CHECK(torch::allclose(out, expected, 1e-4, 1e-5));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      CHECK(torch::allclose(module->parameters()[i].grad(), gradients[i], 1e-4, 1e-4));
    }
    module->zero_grad();
  }
}

TEST_CASE("AD-14 test_batchnorm: a module that trains and writes its buffers", "[conformance][C]") {
  torch::nn::BatchNorm2d norm(4), reference(4);
  const torch::Tensor scale = torch::rand({4}) + 0.5, shift = torch::randn({4});
  const torch::Tensor x = torch::randn({3, 4, 2, 2}) * 2 + 1, tangent = torch::randn({3, 4, 2, 2});
  const auto train = [&](torch::nn::BatchNorm2d& module, const TensorFunction& forward) {
    module->zero_grad();
    module->reset_running_stats();
    {
      const torch::NoGradGuard no_grad;
      module->weight.copy_(scale);
      module->bias.copy_(shift);
    }
    const torch::Tensor leaf = x.clone().requires_grad_();
    const torch::Tensor out = forward({leaf})[0];
    out.backward(tangent);
    return Tensors{out,
                   leaf.grad(),
                   module->weight.grad().clone(),
                   module->bias.grad().clone(),
                   module->running_mean,
                   module->running_var};
  };
  const Tensors expected =
      train(reference, [&](const Tensors& in) { return Tensors{reference->forward(in[0])}; });
  const TensorFunction forward = [&](const Tensors& in) { return Tensors{norm->forward(in[0])}; };

  for (const TensorFunction& compiled : {interpreted(forward), generated(forward)}) {
    const Tensors found = train(norm, compiled);

    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CHECK(torch::allclose(found[i], expected[i], 1e-4, 1e-5));
    }
    CHECK(norm->num_batches_tracked.item<std::int64_t>() == 1);
  }
}

TEST_CASE("test_complex_linear: complex numbers", "[conformance][C]") {
  const auto function = [](const Tensors& in) {
    return Tensors{torch::linear(in[0], in[1], in[2]).sum().abs()};
  };

  check_every_way(function, [](bool) {
    const auto complex = torch::dtype(torch::kComplexFloat);
    return Inputs(Tensors{torch::randn({1, 10, 10}, complex),
                          torch::randn({10, 10}, complex).requires_grad_(),
                          torch::randn({10}, complex).requires_grad_()});
  });
}

TEST_CASE("test_embedding_bag_view_dynamic: a view of an embedding bag", "[conformance][C]") {
  namespace F = torch::nn::functional;
  const auto function = [](const Tensors& in) {
    const auto offsets = F::EmbeddingBagFuncOptions().offsets(in[2]);
    return Tensors{F::embedding_bag(in[1], in[0], offsets).view({-1})};
  };

  check_every_way(function, [](bool requires_grad) {
    return Inputs(Tensors{torch::randn({100, 8}, torch::requires_grad(requires_grad)),
                          torch::tensor({3, 7, 7, 99, 0}),
                          torch::tensor({0, 3, 4})});
  });
}

TEST_CASE("test_composite_impl_compile: linear is decomposed", "[conformance][C]") {
  torch::nn::Linear linear(3, 3);
  const auto trace = trace_joint([&](const Tensors& in) { return Tensors{linear->forward(in[0])}; },
                                 {torch::ones({3, 3}, torch::requires_grad())});

  bool product = false;
  for (const ir::Node& node : trace.graph.nodes()) {
    CHECK(node.target != "aten.linear.default");
    product = product || node.target == "aten.addmm.default";
  }
  CHECK(product);
}

TEST_CASE("AD-10 FA-09 test_compilation_context: forward, inference, and the backward when it runs",
          "[conformance][C]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].sin().sin()}; };
  using Seen = std::vector<std::pair<std::string, std::size_t>>;
  Seen seen;
  std::optional<int> first;
  const auto compiler = [&](const ir::Graph& graph) {
    const std::string& id = autograd_dispatch::compilation_id();
    const std::size_t end = id.find('_');
    const int number = std::stoi(id.substr(0, end));
    first = first.value_or(number);
    CHECK(id.substr(end + 1) == graph.name());
    // PyTorch counts inputs, operators and one node for all outputs.
    seen.emplace_back(std::to_string(number - *first) + id.substr(end),
                      graph.inputs().size() + graph.nodes().size() + 1);
    return autograd_dispatch::interpret(graph);
  };
  const autograd_dispatch::DispatchOptions options{.forward = compiler,
                                                   .backward = compiler,
                                                   .inference = compiler,
                                                   .partition = in_program_order};
  const torch::Tensor x = torch::randn({5}, torch::requires_grad());
  const torch::Tensor y = torch::randn({5});

  const torch::Tensor out = dispatch(trace_joint(function, {x}), options)({x})[0];
  dispatch(trace_joint(function, {y}), options)({y});
  CHECK(seen == Seen{{"0_forward", 4}, {"1_inference", 4}});
  CHECK(autograd_dispatch::compilation_id().empty());
  out.sum().backward();
  CHECK(seen == Seen{{"0_forward", 4}, {"1_inference", 4}, {"0_backward", 8}});
  dispatch(trace_joint(function, {x}), options)({x})[0].sum().backward();

  REQUIRE(seen.size() == 5);
  CHECK(seen[4].first == "2_backward");
}

TEST_CASE("what equal() said when a function was compiled is made sure of at each call",
          "[conformance][C]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].equal(in[1]) ? in[0] * 2 : in[0] - in[1]};
  };
  const torch::Tensor x = torch::randn({5}, torch::requires_grad());
  const Tensors different = {x, torch::randn({5})}, equal = {x, x.detach().clone()};
  check_every_way(function, leaves({{5}, {5}}));

  for (const bool are_equal : {false, true}) {
    CAPTURE(are_equal);
    const Tensors& like = are_equal ? equal : different;
    const Tensors& unlike = are_equal ? different : equal;
    CompileOptions options;
    options.use_cache = false;
    const Function generated_code = compile(function, options);
    generated_code.prepare(like);
    const TensorFunction interpreter =
        dispatch(trace_joint(function, like), {.partition = by_minimum_cut});
    for (const TensorFunction& compiled : {interpreter, TensorFunction(generated_code)}) {
      CHECK(torch::allclose(compiled(like)[0], function(like)[0]));
      CHECK_THROWS_WITH(compiled(unlike),
                        contains("(at::equal)") || contains("on standard error only"));
    }
  }
}

class Autocast {
 public:
  Autocast() {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  }
  ~Autocast() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
};

TEST_CASE(
    "AD-131 test_autocast_disable_guard: a compiled function does not cast what its trace did not",
    "[conformance][O]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].mm(in[0])}; };
  const torch::Tensor x = torch::rand({4, 4});
  const auto compiled = dispatch(trace_joint(function, {x}), {});

  const Autocast autocast;

  CHECK(function({x})[0].scalar_type() == torch::kBFloat16);
  CHECK(compiled({x})[0].scalar_type() == torch::kFloat);
}

TEST_CASE("AD-130 test_nonidempotent_amp: casts happen once", "[conformance][O]") {
  const auto function = [](const Tensors& in) {
    return Tensors{torch::einsum("ah,th->t", {in[0], in[1]}).log_softmax(-1)};
  };
  const Autocast autocast;

  check_every_way(
      function,
      [](bool requires_grad) {
        return Inputs(
            Tensors{torch::rand({1, 256}).requires_grad_(requires_grad),
                    torch::rand({30, 256}).to(torch::kBFloat16).requires_grad_(requires_grad)});
      },
      {.relative = 1e-2, .absolute = 3e-2});  // Two steps of bfloat16 at the largest gradients.
}

TEST_CASE("AD-130 test_autocast: a network under autocast, its backward outside",
          "[conformance][O]") {
  torch::nn::Sequential module(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)),
                               torch::nn::BatchNorm2d(4),
                               torch::nn::ReLU(),
                               torch::nn::Flatten(),
                               torch::nn::Linear(144, 5));
  const torch::Tensor x = torch::randn({2, 3, 8, 8});
  const auto gradients = [&](const TensorFunction& function) {
    torch::Tensor out;
    {
      const Autocast autocast;
      out = function({x})[0];
    }
    out.to(torch::kFloat).square().sum().backward();
    Tensors taken;
    for (torch::Tensor& parameter : module->parameters()) {
      taken.push_back(parameter.grad().clone());
      parameter.mutable_grad().reset();
    }
    return taken;
  };
  const TensorFunction function = [&](const Tensors& in) {
    return Tensors{module->forward(in[0])};
  };

  const Tensors expected = gradients(function);

  for (const TensorFunction& compiled : {interpreted(function), generated(function)}) {
    const Tensors found = gradients(compiled);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(torch::allclose(found[i], expected[i], 1e-2, 1e-2));
    }
  }
}

TEST_CASE("AD-134 test_preserve_random: the same random numbers as eager", "[conformance][O]") {
  const auto function = [](const Tensors& in) {
    return Tensors{torch::dropout(in[0], 0.5, true) + in[0], torch::rand({3})};
  };

  check_every_way(function, leaves({{64}}));
}

}  // namespace
}  // namespace kiln::testing
