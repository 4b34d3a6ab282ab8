// Joint graphs of real models, as PyTorch traces them (tests/filetests/partitioner/models).

#include <string>

#include "joint_graphs.hpp"
#include "kiln/partitioner/memory.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::partitioner {
namespace {

// What the head of the file says of PyTorch's min_cut_rematerialization_partition.
double bytes_with_pytorch(const std::string& text) {
  const std::string marker = "# PyTorch saves: ";
  const std::size_t start = text.find(marker);
  REQUIRE(start != std::string::npos);
  return std::stod(text.substr(start + marker.size()));
}

std::string model_text(const std::string& name) {
  return read_text(std::filesystem::path(KILN_FILETESTS) / "models" / (name + ".kir"));
}

TEST_CASE("PT-09 no more bytes are saved than by PyTorch's minimum cut", "[partitioner][models]") {
  const std::string name = GENERATE("gpt2", "bert", "resnet18", "vit");
  CAPTURE(name);
  const std::string text = model_text(name);
  const ir::Graph joint = ir::parse(text);

  const double saved = simulate_memory(min_cut_partition(joint)).saved;

  CHECK(saved > 0);
  CHECK(saved <= bytes_with_pytorch(text));
  CHECK(saved <= simulate_memory(default_partition(joint)).saved);
}

TEST_CASE("PT-18 the simulated peak of a model never rises when the budget falls",
          "[partitioner][models]") {
  const std::string name = GENERATE("gpt2", "bert", "resnet18", "vit");
  CAPTURE(name);
  const ir::Graph joint = ir::parse(model_text(name));

  const double full = simulate_memory(min_cut_partition(joint)).peak();
  double last = full;
  for (const double budget : {0.8, 0.5, 0.2, 0.1, 0.05, 0.0}) {
    CAPTURE(budget);
    const double peak = simulate_memory(min_cut_partition(joint, {.memory_budget = budget})).peak();
    CHECK(peak <= last);
    last = peak;
  }
  CHECK(last < full);
}

}  // namespace
}  // namespace kiln::partitioner
