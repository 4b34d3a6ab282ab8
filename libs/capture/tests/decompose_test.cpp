// Every decomposition computes what eager does.

#include "kiln/ir/decompose.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <set>

#include "decompose_cases.hpp"
#include "kiln/capture/convert.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/functionalize.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::capture {
namespace {

std::vector<DecomposeCase> all_cases() {
  torch::manual_seed(7);
  std::vector<DecomposeCase> all = elementwise_cases();
  for (const auto& more : {loss_cases(), shape_cases()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

bool calls(const ir::Graph& graph, const std::string& target) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const ir::Node& node) {
    return node.target == target;
  });
}

bool close(const torch::Tensor& expected, const torch::Tensor& got) {
  if (expected.scalar_type() != got.scalar_type() || expected.sizes() != got.sizes()) {
    return false;
  }
  if (!expected.is_floating_point()) {
    return torch::equal(expected, got);
  }
  const bool half = expected.itemsize() == 2;
  return torch::allclose(expected, got, half ? 1e-2 : 2e-5, half ? 1e-3 : 1e-6, /*equal_nan=*/true);
}

TEST_CASE("each decomposition computes what eager does", "[capture][decompose]") {
  for (const DecomposeCase& example : all_cases()) {
    INFO(example.target);
    const Recording recording = record(example.call, example.inputs);
    const ir::Graph whole = ir::functionalize(recording.graph);
    CHECK(calls(whole, example.target));

    const auto others = [&](std::string_view target) { return target != example.target; };
    const ir::Graph simple = ir::decompose(whole, {.keep = others});

    INFO(ir::print(whole) << ir::print(simple));
    CHECK_FALSE(calls(simple, example.target));
    Tensors inputs = example.inputs;
    inputs.insert(inputs.end(), recording.captured.begin(), recording.captured.end());
    const Tensors expected = example.call(example.inputs);
    const Tensors results = Interpreter(simple, {.check_metadata = true}).run(inputs);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("result " << i << ": expected\n" << expected[i] << "\ngot\n" << results[i]);
      CHECK(close(expected[i], results[i]));
    }
  }
}

TEST_CASE("every decomposition has an example", "[capture][decompose]") {
  std::set<std::string> examples;
  for (const DecomposeCase& example : all_cases()) {
    examples.insert(example.target);
  }
  for (const std::string_view target : ir::decomposed_targets()) {
    INFO(target);
    CHECK(examples.contains(std::string(target)));
  }
}

TEST_CASE("what is expanded ends in core ATen", "[capture][decompose]") {
  for (const DecomposeCase& example : all_cases()) {
    const auto others = [&](std::string_view target) { return target != example.target; };
    const ir::Graph whole = ir::functionalize(record(example.call, example.inputs).graph);
    const ir::Graph simple = ir::decompose(whole, {.keep = others});
    std::set<std::string> before;
    for (const ir::Node& node : whole.nodes()) {
      before.insert(node.target);
    }
    for (const ir::Node& node : simple.nodes()) {
      INFO(example.target << " becomes " << node.target);
      CHECK((before.contains(node.target) || ir::is_core_aten(node.target)));
    }
  }
}

TEST_CASE("the core operators are those that libtorch tags so", "[capture][decompose]") {
  std::size_t known = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (op && op->hasSchema() && ir::is_core_aten(target_of(name))) {
      INFO(target_of(name));
      CHECK(op->hasTag(at::Tag::core));
      ++known;
    }
  }
  CHECK(known > 180);
}

}  // namespace
}  // namespace kiln::capture
