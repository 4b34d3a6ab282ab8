#include "kiln/capture/record.hpp"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/verify.hpp"
#include "kiln/testing/catch2.hpp"
#include "targets.hpp"

namespace kiln::capture {
namespace {

using kiln::testing::contains;
using testing::targets_of;

bool has(const ir::Graph& graph, const std::string& target) {
  const std::vector<std::string> targets = targets_of(graph);
  return std::find(targets.begin(), targets.end(), target) != targets.end();
}

Tensors replay(const Recording& recording, Tensors inputs) {
  inputs.insert(inputs.end(), recording.captured.begin(), recording.captured.end());
  return Interpreter(recording.graph, {.check_metadata = true}).run(std::move(inputs));
}

TEST_CASE("EX-01 a recorded function gives on other inputs what the function gives",
          "[capture][record]") {
  const auto function = [](const Tensors& in) { return Tensors{torch::sin(in[0]) * 2 + in[1]}; };

  const Recording recording = record(function, {torch::randn({3, 4}), torch::randn({4})});

  CHECK(recording.captured.empty());
  const Tensors other{torch::randn({3, 4}), torch::randn({4})};
  CHECK(torch::equal(replay(recording, other)[0], function(other)[0]));
}

TEST_CASE("EX-02 gradients are ordinary operators", "[capture][record]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor loss = (in[0].tanh() * in[0]).sum();
    return Tensors{torch::autograd::grad({loss}, {in[0]})[0]};
  };
  const torch::Tensor x = torch::randn({5}, torch::requires_grad());

  const Recording recording = record(function, {x});

  CHECK(has(recording.graph, "aten.tanh_backward.default"));
  CHECK(torch::allclose(replay(recording, {x})[0], function({x})[0]));
}

TEST_CASE("EX-07 a linear layer is a transpose and a product, its weights captured",
          "[capture][record]") {
  torch::nn::Linear linear(4, 3);
  const torch::Tensor x = torch::randn({2, 4});

  const Recording recording =
      record([&](const Tensors& in) { return Tensors{linear(in[0])}; }, {x});

  CHECK(targets_of(recording.graph) ==
        std::vector<std::string>{"aten.t.default", "aten.addmm.default"});
  REQUIRE(recording.captured.size() == 2);
  CHECK((recording.captured[0].is_same(linear->weight) ||
         recording.captured[1].is_same(linear->weight)));
  CHECK(torch::equal(replay(recording, {x})[0], linear(x)));
}

TEST_CASE("views know what they are a view of and share its storage", "[capture][record]") {
  const Recording recording = record(
      [](const Tensors& in) { return Tensors{in[0].t().select(0, 1)}; }, {torch::randn({2, 3})});

  REQUIRE(recording.graph.nodes().size() == 2);
  const ir::Node& select = recording.graph.nodes()[1];
  REQUIRE(select.aliases.size() == 1);
  CHECK((select.aliases[0] == ir::Alias{0, 0}));
  CHECK((recording.graph.tensor(select.results[0]).storage ==
         recording.graph.tensor(recording.graph.inputs()[0].value).storage));
}

TEST_CASE("a trace on shadow inputs leaves inputs and captured buffers as they were",
          "[capture][record]") {
  const torch::Tensor x = torch::ones({3});
  const torch::Tensor buffer = torch::zeros({3});
  const auto function = [&](const Tensors& in) {
    in[0].mul_(2);
    buffer.add_(in[0]);
    return Tensors{in[0] + buffer};
  };

  const Recording recording = record(function, {x});

  CHECK(torch::equal(x, torch::ones({3})));
  CHECK(torch::equal(buffer, torch::zeros({3})));
  const ir::Node& first = recording.graph.nodes()[0];
  CHECK(first.mutates == std::vector<std::uint32_t>{0});
  CHECK(torch::equal(recording.outputs[0], torch::full({3}, 4.0)));
}

TEST_CASE("a trace on shadow inputs reshapes what it made, and nothing that is the caller's",
          "[capture][record]") {
  const at::Tensor first = torch::randn({2, 3}), second = torch::randn({2, 3});
  const auto transposing = [&](const at::Tensor& tensor) {
    return [&](const Tensors& in) {
      const at::Tensor own = in[0] * first + second;
      own.t_();
      return Tensors{own + (tensor.defined() ? tensor.t_() : own)};
    };
  };

  CHECK(record(transposing({}), {torch::randn({2, 3})}).captured.size() == 2);
  for (const at::Tensor& captured : {first, second}) {
    CHECK_THROWS_WITH(record(transposing(captured), {torch::randn({2, 3})}),
                      contains("Can't call metadata mutations on a captured tensor: aten.t_"));
    CHECK(captured.sizes() == at::IntArrayRef({2, 3}));
  }
}

TEST_CASE("a trace that throws on shadow inputs leaves everything as it was too",
          "[capture][record]") {
  const torch::Tensor buffer = torch::zeros({3});
  const auto function = [&](const Tensors& in) -> Tensors {
    buffer.add_(in[0]);
    throw std::runtime_error("mine");
  };

  CHECK_THROWS_WITH(record(function, {torch::ones({3})}), "mine");

  CHECK(torch::equal(buffer, torch::zeros({3})));
  CHECK_FALSE(is_recording());
}

TEST_CASE("the call itself runs on the real tensors", "[capture][record]") {
  const torch::Tensor x = torch::ones({3});

  const Recording recording = record(
      [](const Tensors& in) { return Tensors{in[0].mul_(2)}; }, {x}, {.on_shadow_inputs = false});

  CHECK(torch::equal(x, torch::full({3}, 2.0)));
  CHECK(recording.outputs[0].is_same(x));
}

TEST_CASE("random numbers are eager's, and the generator goes on as if nothing was traced",
          "[capture][record]") {
  const auto function = [](const Tensors& in) {
    return Tensors{torch::dropout(in[0], 0.5, true) + torch::rand_like(in[0])};
  };
  const torch::Tensor x = torch::randn({32});

  torch::manual_seed(7);
  const torch::Tensor expected = function({x})[0];
  const torch::Tensor next = torch::rand({4});
  torch::manual_seed(7);
  const Recording recording = record(function, {x});
  const torch::Tensor again = function({x})[0];

  CHECK(torch::equal(recording.outputs[0], expected));
  CHECK(torch::equal(again, expected));
  CHECK(torch::equal(torch::rand({4}), next));
  CHECK(std::any_of(recording.graph.nodes().begin(),
                    recording.graph.nodes().end(),
                    [](const ir::Node& node) { return node.random; }));
}

TEST_CASE("attention is random only if it drops something", "[capture][record]") {
  const torch::Tensor x = torch::randn({1, 2, 8, 4});
  const auto random_nodes = [&](double dropout) {
    const Recording recording = record(
        [&](const Tensors& in) {
          return Tensors{
              torch::scaled_dot_product_attention(in[0], in[0], in[0], std::nullopt, dropout)};
        },
        {x});
    CHECK_FALSE(recording.graph.nodes().empty());
    return std::count_if(recording.graph.nodes().begin(),
                         recording.graph.nodes().end(),
                         [](const ir::Node& node) { return node.random; });
  };

  CHECK(random_nodes(0.0) == 0);
  CHECK(random_nodes(0.5) > 0);
}

TEST_CASE("EX-17 reading a value is refused by name", "[capture][record]") {
  const auto reads = [](const Tensors& in) { return Tensors{in[0] * in[0].sum().item<float>()}; };
  const auto shapes = [](const Tensors& in) { return Tensors{torch::nonzero(in[0])}; };

  CHECK_THROWS_WITH(record(reads, {torch::ones({2})}),
                    contains("aten._local_scalar_dense.default"));
  CHECK_THROWS_WITH(record(shapes, {torch::ones({2})}), contains("aten.nonzero.default"));
}

TEST_CASE("what is computed from numbers alone may be read", "[capture][record]") {
  const bool without_values = GENERATE(false, true);
  CAPTURE(without_values);
  const auto reads = [&](auto make) {
    return record(
        [&](const Tensors& in) { return Tensors{in[0] * make(in[0]).template item<double>()}; },
        {torch::ones({2, 3})},
        {.without_values = without_values});
  };

  const Recording recording =
      reads([](const torch::Tensor& x) { return torch::scalar_tensor(x.size(1)) * 2; });
  const torch::Tensor x = torch::rand({2, 3});
  CHECK(torch::equal(replay(recording, {x})[0], x * 6));
  CHECK_NOTHROW(reads([](const torch::Tensor&) { return torch::arange(4).sum(); }));
  CHECK_NOTHROW(reads([](const torch::Tensor&) { return torch::tensor(3.0).add_(1); }));
}

TEST_CASE("what is drawn, captured or written from data may not be read", "[capture][record]") {
  const torch::Tensor captured = torch::ones({});
  const auto refused = [](auto make) {
    CHECK_THROWS_WITH(
        record(
            [&](const Tensors& in) { return Tensors{in[0] * make(in[0]).template item<double>()}; },
            {torch::ones({2, 3})}),
        contains("aten._local_scalar_dense.default"));
  };

  refused([](const torch::Tensor&) { return torch::rand({}); });
  refused([&](const torch::Tensor&) { return captured + 1; });
  refused([](const torch::Tensor& x) { return torch::zeros({}).add_(x.sum()); });
  refused([](const torch::Tensor& x) { return torch::zeros({}).copy_(x[0][0]) * 2; });
  refused([](const torch::Tensor& x) {
    const torch::Tensor number = torch::zeros({2});
    number[0].add_(x.sum());  // By a view of it.
    return number.sum();
  });
}

TEST_CASE("EX-11 a captured meta tensor is an error", "[capture][record]") {
  const torch::Tensor fake = torch::ones({2}, torch::kMeta);

  CHECK_THROWS_WITH(record([&](const Tensors&) { return Tensors{fake + 1}; }, {}),
                    contains("Unexpected fake"));
}

TEST_CASE("tensor literals of the C++ frontend are recorded", "[capture][record]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0] + torch::tensor({1.0f, 2.0f, 3.0f})};
  };

  const Recording recording = record(function, {torch::zeros({3})});

  CHECK(recording.captured.empty());
  CHECK(torch::equal(replay(recording, {torch::ones({3})})[0], torch::tensor({2.0f, 3.0f, 4.0f})));
}

TEST_CASE("autocast shows as casts", "[capture][record]") {
  torch::nn::Linear linear(4, 4);
  const auto function = [&](const Tensors& in) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const torch::Tensor out = linear(in[0]);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    return Tensors{out};
  };

  const Recording recording = record(function, {torch::randn({2, 4})});

  CHECK(has(recording.graph, "aten._to_copy.default"));
  CHECK(recording.outputs[0].scalar_type() == torch::kBFloat16);
}

TEST_CASE("composites are decomposed in inference mode, too", "[capture][record]") {
  torch::nn::Linear linear(4, 3);
  const c10::InferenceMode inference;

  const Recording recording =
      record([&](const Tensors& in) { return Tensors{torch::relu(linear(in[0]))}; },
             {torch::randn({2, 4})});

  CHECK_FALSE(has(recording.graph, "aten.linear.default"));
  CHECK(has(recording.graph, "aten.addmm.default"));
}

TEST_CASE("EX-07 operators on lists are recorded as operators on what is in the lists",
          "[capture][record]") {
  const auto function = [](const Tensors& in) {
    const Tensors sums = at::_foreach_add({in[0], in[1]}, {in[1], in[1]}, 2);
    // The second in place sees what the first has written.
    const torch::Tensor twice = in[0].clone();
    at::_foreach_mul_({twice, twice}, 3);
    at::_foreach_addcdiv_(
        {twice, sums[1]}, {in[0], in[1]}, {in[1], in[1]}, std::vector<at::Scalar>{0.5, 2});
    return Tensors{sums[0], sums[1], twice, at::_foreach_norm({twice}, 2)[0]};
  };
  const Tensors inputs{torch::rand({3, 4}) + 1, torch::rand({4}) + 1};

  const Recording recording = record(function, inputs);

  CHECK(targets_of(recording.graph) == std::vector<std::string>{"aten.add.Tensor",
                                                                "aten.add.Tensor",
                                                                "aten.clone.default",
                                                                "aten.mul_.Scalar",
                                                                "aten.mul_.Scalar",
                                                                "aten.addcdiv_.default",
                                                                "aten.addcdiv_.default",
                                                                "aten.linalg_vector_norm.default"});
  const Tensors expected = function(inputs);
  const Tensors found = replay(recording, inputs);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(torch::equal(found[i], expected[i]));
  }
}

TEST_CASE("an operator on lists that reads numbers from a tensor stays whole",
          "[capture][record]") {
  const auto function = [](const Tensors& in) {
    return Tensors{at::_foreach_addcmul({in[0]}, {in[0]}, {in[0]}, in[1])[0]};
  };
  const torch::Tensor x = torch::ones({3});

  const Recording recording = record(function, {x, torch::full({1}, 2.0)});

  CHECK(torch::equal(replay(recording, {x, torch::full({1}, 5.0)})[0], torch::full({3}, 6.0)));
}

TEST_CASE("a custom autograd function is recorded in both directions", "[capture][record]") {
  struct Cube : torch::autograd::Function<Cube> {
    static torch::Tensor forward(torch::autograd::AutogradContext* context,
                                 const torch::Tensor& x) {
      context->save_for_backward({x});
      return x * x * x;
    }
    static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::tensor_list gradients) {
      const torch::Tensor x = context->get_saved_variables()[0];
      return {gradients[0] * 3 * x * x};
    }
  };
  const auto function = [](const Tensors& in) {
    return Tensors{torch::autograd::grad({Cube::apply(in[0]).sum()}, {in[0]})[0]};
  };
  const torch::Tensor x = torch::randn({4}, torch::requires_grad());

  const Recording recording = record(function, {x});

  CHECK(recording.captured.empty());
  CHECK(torch::allclose(replay(recording, {x})[0], 3 * x * x));
}

TEST_CASE("two threads trace two programs, and a third is not disturbed", "[capture][record]") {
  const auto trace = [](std::size_t length, std::vector<std::string>& out) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      const Recording recording = record(
          [&](const Tensors& in) {
            torch::Tensor x = in[0];
            for (std::size_t i = 0; i < length; ++i) {
              x = x.sin();
            }
            return Tensors{x};
          },
          {torch::randn({4})});
      out = targets_of(recording.graph);
      if (out.size() != length) {
        return;
      }
    }
  };
  std::vector<std::string> first, second;
  std::thread one([&] { trace(3, first); });
  std::thread two([&] { trace(5, second); });
  for (int i = 0; i < 50; ++i) {
    torch::randn({8}).cos();
  }
  one.join();
  two.join();

  CHECK(first == std::vector<std::string>(3, "aten.sin.default"));
  CHECK(second == std::vector<std::string>(5, "aten.sin.default"));
}

TEST_CASE("inputs that share memory have values that share a storage", "[capture][record]") {
  const torch::Tensor base = torch::zeros({4});
  const auto function = [](const Tensors& in) {
    in[0].add_(1);
    return Tensors{in[1] * 1};
  };

  const Recording recording = record(function, {base, base.slice(0, 1, 3)});

  const auto storage = [&](int i) {
    return recording.graph.tensor(recording.graph.inputs()[i].value).storage;
  };
  CHECK((storage(0) == storage(1)));
  CHECK(torch::equal(recording.outputs[0], torch::ones({2})));
  CHECK(torch::equal(base, torch::zeros({4})));
}

TEST_CASE("what set_ and out= return is a view of what it lies in", "[capture][record]") {
  const auto function = [](const Tensors& in) {
    torch::Tensor seen = in[0].alias();
    seen.set_(in[1]);
    torch::Tensor out = in[2];
    torch::add_out(out, in[2], in[2]);
    return Tensors{seen, out};
  };

  const Recording recording =
      record(function, {torch::zeros({2}), torch::ones({3}), torch::ones({4})});

  CHECK_NOTHROW(ir::verify(recording.graph));
  for (const ir::Node& node : recording.graph.nodes()) {
    if (node.target == "aten.set_.source_Tensor") {
      CHECK(node.aliases.at(0).argument == 1);
    } else if (node.target == "aten.add.out") {
      CHECK(node.aliases.at(0).argument == 3);
    }
  }
  CHECK(recording.graph.nodes().size() == 3);
}

}  // namespace
}  // namespace kiln::capture
