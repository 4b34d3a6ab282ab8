// TorchScript modules as functions that are compiled and trained.

#include <torch/script.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "kiln/export/script.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

// The mean over the rows, as torch.jit.trace writes it: their number is a tensor.
torch::jit::Module make_mean() {
  torch::jit::Module module("mean");
  const auto graph = std::make_shared<torch::jit::Graph>();
  graph->addInput("self")->setType(module._ivalue()->type());
  torch::jit::Value* x = graph->addInput("x");
  torch::jit::Value* rows = graph->insert(c10::aten::size, {x, 0});
  torch::jit::Value* count = graph->insertNode(graph->createNumToTensor(rows))->output();
  graph->registerOutput(graph->insert(c10::aten::div, {graph->insert(c10::aten::sum, {x}), count}));
  module.type()->addMethod(module._ivalue()->compilation_unit()->create_function(
      c10::QualifiedName(*module.type()->name(), "forward"), graph));
  return module;
}

TEST_CASE("a traced script trains at sizes that vary", "[jit][script]") {
  CompileOptions options;
  options.use_cache = false;
  const auto fast = compile(exporter::script_function(make_mean()), options);

  for (const std::int64_t rows : {4, 6, 9, 12, 5}) {
    CAPTURE(rows);
    const torch::Tensor x = torch::rand({rows, 3}, torch::requires_grad());
    const torch::Tensor found = fast({x})[0];
    found.backward();
    CHECK(torch::allclose(found, x.sum() / rows));
    CHECK(torch::allclose(x.grad(), torch::full({rows, 3}, 1.0 / static_cast<double>(rows))));
  }

  CHECK(fast.report().versions == 2);
}

}  // namespace
}  // namespace kiln
