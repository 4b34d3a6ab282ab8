// In which order things are done, and what is known of a function before it is compiled.

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <thread>

#include "interpreted.hpp"
#include "kiln/autograd_dispatch/dispatch.hpp"
#include "kiln/base/error.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/partitioner/partition.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/compare_with_eager.hpp"

namespace kiln::autograd_dispatch {
namespace {

using kiln::testing::check_like_eager;
using kiln::testing::contains;

// Interprets, and notes when it compiles and when it runs.
Compiler noting(std::vector<std::string>& events) {
  return [&events](const ir::Graph& graph) -> CompiledGraph {
    events.push_back("compile " + graph.name());
    return [&events, name = graph.name(), run = interpret(graph)](Tensors inputs) {
      events.push_back("run " + name);
      return run(std::move(inputs));
    };
  };
}

DispatchOptions noting_all(std::vector<std::string>& events, bool lazy_backward = true) {
  return {.forward = noting(events),
          .backward = noting(events),
          .inference = noting(events),
          .partition =
              [&events](const ir::Graph& joint) {
                events.push_back("partition " + joint.name());
                return cut(joint);
              },
          .lazy_backward = lazy_backward};
}

TEST_CASE("AD-01 one function gives a graph alone, a function to infer with, or one that trains",
          "[autograd-dispatch][pipeline]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].add_(1).sin() * in[1]}; };
  const Tensors plain = {torch::ones({3}), torch::ones({3})};
  const Tensors trained = {torch::ones({3}), torch::ones({3}, torch::requires_grad())};

  const JointTrace joint = trace_joint(function, trained);
  const JointTrace inference = trace_joint(function, plain);

  CHECK(joint.graph.name() == "joint");
  CHECK(inference.graph.name() == "inference");
  CHECK(torch::equal(plain[0], torch::ones({3})));  // A trace alone leaves its inputs as they are.
  CHECK(torch::equal(trained[0], torch::ones({3})));
  CHECK_FALSE(dispatch(inference, {}).trains());
  CHECK(dispatch(joint, {.partition = cut}).trains());
  CHECK_THROWS_WITH(dispatch(joint, {}), contains("partition function"));
}

TEST_CASE("AD-04 AD-111 what happens to inputs, what outputs are, and which results get tangents",
          "[autograd-dispatch][pipeline]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(2);           // Seen by autograd.
    in[1].add_(1);           // Has no gradient.
    in[2].t_();              // Only its shape changes.
    in[3].detach().add_(1);  // Hidden from autograd.
    const torch::Tensor base = in[0] * 3;
    return Tensors{base.view({-1}),
                   base.t(),
                   in[0].sum(),
                   in[0].argmax(),
                   in[3].view({-1}),
                   in[1],
                   base.detach() * 2};
  };
  const torch::Tensor leaf = torch::randn({2, 3}, torch::requires_grad());

  const Plan plan =
      trace_joint(function, {leaf + 1, torch::ones({2}), torch::ones({2, 3}), leaf}).plan;

  REQUIRE(plan.writes.size() == 3);
  const auto write_of = [&](std::uint32_t input) {
    const auto found = std::find_if(plan.writes.begin(),
                                    plan.writes.end(),
                                    [&](const WritePlan& write) { return write.input == input; });
    REQUIRE(found != plan.writes.end());
    return *found;
  };
  CHECK(write_of(0).visible);
  CHECK(write_of(0).result.has_value());
  for (const std::uint32_t hidden : {1U, 3U}) {
    CHECK_FALSE(write_of(hidden).visible);
    CHECK_FALSE(write_of(hidden).result.has_value());  // The graph writes it.
  }
  REQUIRE(plan.changes.size() == 1);
  CHECK(plan.changes[0].argument == 2);
  CHECK(plan.changes[0].geometry->sizes == std::vector<std::int64_t>{3, 2});

  using Kind = OutputPlan::Kind;
  const std::vector<Kind> kinds = {Kind::kAliasOfComputed,
                                   Kind::kAliasOfComputed,
                                   Kind::kComputed,
                                   Kind::kComputed,
                                   Kind::kAliasOfArgument,
                                   Kind::kArgument,
                                   Kind::kComputed};
  REQUIRE(plan.returned == kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    CAPTURE(i);
    CHECK(plan.outputs[i].kind == kinds[i]);
  }
  CHECK(plan.outputs[0].index == plan.outputs[1].index);
  CHECK(plan.outputs[0].view.views.has_value());
  CHECK_FALSE(plan.outputs[3].requires_grad);
  CHECK_FALSE(plan.outputs[6].requires_grad);

  // The updated input, the sum, and the base of the two views; no index, alias or detached result.
  std::vector<std::uint32_t> expected = {
      *write_of(0).result, plan.outputs[0].index, plan.outputs[2].index};
  std::vector<std::uint32_t> tangents = plan.tangents;
  std::sort(expected.begin(), expected.end());
  std::sort(tangents.begin(), tangents.end());
  CHECK(tangents == expected);
}

TEST_CASE("AD-05 duplicates go first, then what overlaps is one base, and all is undone after",
          "[autograd-dispatch][pipeline]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(2);
    return Tensors{in[1] + in[2].sum(), in[2].view({-1}), in[3] * 2, in[1]};
  };
  const auto make = [] {
    const torch::Tensor leaf = torch::arange(4.0, torch::requires_grad());
    const torch::Tensor x = leaf * 1;
    return testing::Inputs({leaf}, {x, x, x.slice(0, 1, 3), leaf});
  };

  const Plan plan = trace_joint(function, make().arguments).plan;

  CHECK(plan.inputs.size() == 2);
  CHECK(plan.inputs[0].base.has_value());
  CHECK(plan.aliases[1].same_as == 0);
  CHECK(plan.aliases[2].first == 0);
  check_like_eager(function, compiled(function, cut), make);
}

TEST_CASE("AD-06 a function without gradients is compiled once, before it runs",
          "[autograd-dispatch][pipeline]") {
  std::vector<std::string> events;
  const torch::Tensor x = torch::randn({3});
  const CompiledFunction function = dispatch(
      trace_joint([](const Tensors& in) { return Tensors{in[0].sin()}; }, {x}), noting_all(events));

  function({x});
  function({x});

  CHECK(events == std::vector<std::string>{"compile inference", "run inference", "run inference"});
}

TEST_CASE(
    "AD-07 a function that trains is divided, its forward compiled, its backward when it runs",
    "[autograd-dispatch][pipeline]") {
  using Events = std::vector<std::string>;
  const auto function = [](const Tensors& in) { return Tensors{in[0].sin()}; };
  const torch::Tensor x = torch::randn({3}, torch::requires_grad());

  SECTION("when it runs") {
    Events events;
    const CompiledFunction lazy = dispatch(trace_joint(function, {x}), noting_all(events));
    CHECK(events == Events{"partition joint", "compile forward"});

    events.clear();
    const torch::Tensor out = lazy({x})[0].sum();
    out.backward({}, /*retain_graph=*/true);
    out.backward();

    CHECK(events == Events{"run forward", "compile backward", "run backward", "run backward"});
  }
  SECTION("or at once") {
    Events events;
    const CompiledFunction eager = dispatch(trace_joint(function, {x}), noting_all(events, false));

    CHECK(events == Events{"partition joint", "compile forward", "compile backward"});
    CHECK_FALSE(eager.plan().deterministic);
  }
}

TEST_CASE("AD-130 compilers and compiled graphs run with autocast off",
          "[autograd-dispatch][pipeline]") {
  std::vector<at::ScalarType> seen;
  const auto product = [&] {
    const torch::Tensor one = torch::ones({2, 2});
    seen.push_back(one.mm(one).scalar_type());
  };
  const Compiler compiler = [&](const ir::Graph& graph) -> CompiledGraph {
    product();
    return [&, run = interpret(graph)](Tensors inputs) {
      product();
      return run(std::move(inputs));
    };
  };
  const auto function = [](const Tensors& in) { return Tensors{in[0].mm(in[0])}; };
  const torch::Tensor x = torch::ones({2, 2}, torch::requires_grad());

  at::autocast::set_autocast_enabled(at::kCPU, true);
  const DispatchOptions options{
      .forward = compiler, .backward = compiler, .inference = compiler, .partition = cut};
  const torch::Tensor trained = dispatch(trace_joint(function, {x}), options)({x})[0];
  trained.to(at::kFloat).sum().backward();
  dispatch(trace_joint(function, {x.detach()}), options)({x.detach()});
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);

  CHECK(trained.scalar_type() == at::kBFloat16);
  CHECK(seen == std::vector<at::ScalarType>(6, at::kFloat));
}

TEST_CASE(
    "AD-76 AD-77 AD-115 outputs can be looked at, differentiated again and written as eager's",
    "[autograd-dispatch][pipeline]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor product = in[0] * in[1];
    return Tensors{product, product.view({-1}), in[0].t(), in[1].detach(), in[0].argmax()};
  };
  const auto make = [] {
    return Tensors{torch::randn({2, 3}, torch::requires_grad()),
                   torch::randn({2, 3}, torch::requires_grad())};
  };
  check_like_eager(function, compiled(function, cut), make);

  const Tensors in = make();
  const Tensors outputs = compiled(function, cut)(in);
  CHECK_FALSE(outputs[0].is_leaf());
  CHECK(outputs[1]._base().is_same(outputs[0]));
  CHECK(outputs[2]._base().is_same(in[0]));
  CHECK(outputs[3].is_leaf());
  outputs[0].sum().backward({}, /*retain_graph=*/true);
  outputs[1].sum().backward({}, /*retain_graph=*/true);
  CHECK(torch::allclose(in[0].grad(), 2 * in[1]));
  outputs[0].mul_(2);
  CHECK(torch::allclose(outputs[1], 2 * (in[0] * in[1]).view({-1})));
}

TEST_CASE("AD-114 a backward that could not be compiled is tried again, by whoever waited",
          "[autograd-dispatch][pipeline]") {
  std::atomic<int> tries = 0, failures = 0;
  const torch::Tensor x = torch::randn({8}, torch::requires_grad());
  const CompiledFunction trained =
      dispatch(trace_joint([](const Tensors& in) { return Tensors{in[0].sin()}; }, {x}),
               {.backward =
                    [&](const ir::Graph& graph) {
                      if (++tries == 1) {
                        throw Error(ErrorCode::kIo, "no room to compile in");
                      }
                      return interpret(graph);
                    },
                .partition = cut});

  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const torch::Tensor leaf = x.detach().clone().requires_grad_();
      try {
        trained({leaf})[0].sum().backward();
      } catch (const std::exception&) {
        ++failures;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  CHECK(tries == 2);
  CHECK(failures == 1);
}

TEST_CASE("AD-117 what a forward saved in another layout reaches the backward in the traced one",
          "[autograd-dispatch][pipeline]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].exp().mm(in[1])}; };
  const Tensors in = {torch::randn({3, 4}, torch::requires_grad()),
                      torch::randn({4, 2}, torch::requires_grad())};
  const auto transposing = [](const ir::Graph& graph) -> CompiledGraph {
    return [run = interpret(graph)](Tensors inputs) {
      Tensors results = run(std::move(inputs));
      for (std::size_t i = 1; i < results.size(); ++i) {  // The first is what the caller gets.
        results[i] = results[i].t().contiguous().t();
      }
      return results;
    };
  };
  bool as_traced = true;
  const auto watching = [&](const ir::Graph& graph) -> CompiledGraph {
    std::vector<std::vector<std::int64_t>> expected;
    for (const ir::Input& input : graph.inputs()) {
      expected.emplace_back();
      for (const ir::Expr& stride : graph.tensor(input.value).strides) {
        expected.back().push_back(*stride.constant());
      }
    }
    return [&as_traced, expected, run = interpret(graph)](Tensors inputs) {
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        as_traced = as_traced && inputs[i].strides() == at::IntArrayRef(expected[i]);
      }
      return run(std::move(inputs));
    };
  };

  dispatch(trace_joint(function, in),
           {.forward = transposing, .backward = watching, .partition = cut})(in)[0]
      .sum()
      .backward();

  CHECK(as_traced);
  CHECK(torch::allclose(in[1].grad(), in[0].exp().t().mm(torch::ones({3, 2}))));
}

// Recomputes whatever can be.
std::pair<ir::Graph, ir::Graph> least_saved(const ir::Graph& joint) {
  partitioner::Partition parts = partitioner::min_cut_partition(joint, {.memory_budget = 0});
  return {std::move(parts.forward), std::move(parts.backward)};
}

TEST_CASE("AD-135 what was drawn at random is saved, never drawn again",
          "[autograd-dispatch][pipeline]") {
  const auto function = [](const Tensors& in) {
    return Tensors{torch::dropout(in[0].sin(), 0.5, true) * torch::rand({64})};
  };
  const torch::Tensor x = torch::randn({64}, torch::requires_grad());

  const auto [forward, backward] = least_saved(trace_joint(function, {x}).graph);

  const auto draws = [](const ir::Graph& graph) {
    return std::count_if(graph.nodes().begin(), graph.nodes().end(), [](const ir::Node& node) {
      return node.random;
    });
  };
  CHECK(draws(forward) == 2);
  CHECK(draws(backward) == 0);
}

TEST_CASE("AD-135 a backward uses the numbers that its own forward drew",
          "[autograd-dispatch][pipeline]") {
  const auto function = [](const Tensors& in) {
    return Tensors{torch::dropout(in[0].sin(), 0.5, true) * torch::rand({64})};
  };
  const torch::Tensor x = torch::randn({64}, torch::requires_grad());
  const auto compiled = dispatch(trace_joint(function, {x}), {.partition = least_saved});
  const auto gradients = [&](const auto& run) {
    torch::manual_seed(7);
    const torch::Tensor first = run({x})[0], second = run({x})[0];
    torch::manual_seed(8);
    return Tensors{torch::autograd::grad({second.sum()}, {x})[0],
                   torch::autograd::grad({first.sum()}, {x})[0]};
  };

  const Tensors expected = gradients(function), found = gradients(compiled);

  CHECK(torch::allclose(found[0], expected[0]));
  CHECK(torch::allclose(found[1], expected[1]));
  CHECK_FALSE(torch::allclose(found[0], found[1]));
}

}  // namespace
}  // namespace kiln::autograd_dispatch
