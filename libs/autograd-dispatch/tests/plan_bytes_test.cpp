#include "kiln/autograd_dispatch/plan_bytes.hpp"

#include <torch/torch.h>

#include "kiln/autograd_dispatch/dispatch.hpp"
#include "kiln/autograd_dispatch/joint.hpp"
#include "kiln/base/error.hpp"
#include "kiln/partitioner/partition.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/compare_with_eager.hpp"

namespace kiln::autograd_dispatch {
namespace {

Plan some_plan() {
  const auto function = [](const Tensors& in) {
    in[0].mul_(2);
    in[1].t_();
    const torch::Tensor sum = in[0] + in[1];
    return Tensors{sum.view({-1}), sum.t(), in[0].select(0, 1), in[2].detach()};
  };
  const torch::Tensor leaf = torch::ones({3, 3}, torch::requires_grad());
  return trace_joint(function, {leaf * 2, torch::ones({3, 3}), leaf}).plan;
}

TEST_CASE("a plan comes back from its bytes", "[autograd-dispatch][plan_bytes]") {
  const Plan plan = some_plan();

  const std::string bytes = to_bytes(plan);
  const Plan again = plan_from_bytes(bytes);

  CHECK(to_bytes(again) == bytes);
  REQUIRE(again.outputs.size() == plan.outputs.size());
  CHECK(again.outputs[0].view.views->nodes().size() == plan.outputs[0].view.views->nodes().size());
  CHECK(again.writes.size() == 1);
  CHECK(again.changes[0].geometry == plan.changes[0].geometry);
  CHECK(again.gradients == plan.gradients);
  CHECK(again.reached_by == plan.reached_by);
}

TEST_CASE("sizes that vary come back from a plan's bytes", "[autograd-dispatch][plan_bytes]") {
  Plan plan = some_plan();
  const ir::Expr n = ir::Expr::symbol("n");
  plan.forward_backward.symbols = {
      {.symbol = "n", .input = 2, .dimension = 1, .scale = 3, .shift = -1}};
  plan.forward_backward.saved_sizes = {n, n * 2 + 1};
  plan.forward_backward.tangents = {{.sizes = {n, 4}, .strides = {4, 1}}};
  plan.symbols = plan.forward_backward.symbols;
  plan.outputs[0].view.window = {.sizes = {n, 2}, .strides = {2, 1}, .offset = n * 3};

  const Plan again = plan_from_bytes(to_bytes(plan));

  CHECK(to_bytes(again) == to_bytes(plan));
  CHECK(again.forward_backward.symbols[0].symbol == "n");
  CHECK(again.forward_backward.symbols[0].shift == -1);
  CHECK((again.forward_backward.saved_sizes == plan.forward_backward.saved_sizes));
  CHECK((again.forward_backward.tangents[0].sizes == plan.forward_backward.tangents[0].sizes));
  CHECK(again.symbols.at(0).scale == 3);
  CHECK((again.outputs[0].view.window.sizes == plan.outputs[0].view.window.sizes));
  CHECK((again.outputs[0].view.window.offset == n * 3));
}

TEST_CASE("CA-01 a function is put together again from its plan and its compiled graphs",
          "[autograd-dispatch][plan_bytes]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor product = in[0].sin().mm(in[1]);
    return Tensors{product, product.t(), in[1].view({-1})};
  };
  CompiledGraph forward, backward;
  const auto keep = [](CompiledGraph& kept) {
    return [&kept](const ir::Graph& graph) { return kept = interpret(graph); };
  };
  const auto cut = [](const ir::Graph& joint) {
    partitioner::Partition parts = partitioner::default_partition(joint);
    return std::pair(std::move(parts.forward), std::move(parts.backward));
  };
  const Tensors arguments = {torch::randn({3, 4}, torch::requires_grad()),
                             torch::randn({4, 2}, torch::requires_grad())};
  const CompiledFunction original = dispatch(trace_joint(function, arguments),
                                             {.forward = keep(forward),
                                              .backward = keep(backward),
                                              .partition = cut,
                                              .lazy_backward = false});

  int asked = 0;
  const Plan plan = plan_from_bytes(to_bytes(original.plan()));
  const CompiledFunction again = assemble(plan, forward, [&] { return ++asked, backward; });

  CHECK(plan.forward_backward.saved > 0);
  CHECK(accepts(plan, arguments));
  testing::check_like_eager(function, again, [] {
    return Tensors{torch::randn({3, 4}, torch::requires_grad()),
                   torch::randn({4, 2}, torch::requires_grad())};
  });
  CHECK(asked == 1);
}

TEST_CASE("bytes that are no plan are refused", "[autograd-dispatch][plan_bytes]") {
  const std::string bytes = to_bytes(some_plan());

  CHECK_THROWS_AS(plan_from_bytes(""), Error);
  CHECK_THROWS_AS(plan_from_bytes("something else entirely"), Error);
  CHECK_THROWS_AS(plan_from_bytes(bytes + "x"), Error);
  for (std::size_t length = 0; length < bytes.size(); length += 7) {
    CHECK_THROWS_AS(plan_from_bytes(std::string_view(bytes).substr(0, length)), Error);
  }
}

}  // namespace
}  // namespace kiln::autograd_dispatch
