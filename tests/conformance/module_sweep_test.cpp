// Family U: every module of torch::nn, train and eval, forward and gradients, against eager.

#include <set>
#include <sstream>

#include "every_way.hpp"
#include "kiln/testing/catch2.hpp"
#include "module_cases.hpp"

namespace kiln::testing {
namespace {

const char* const kModulesOfTorch =
#include "torch_modules.inc"
    ;

struct ModuleOutcome {
  Tensors outputs, gradients, buffers;
};

using CompileForward = std::function<TensorFunction(const TensorFunction&)>;

// Several modules as one function: one compilation for all of them.
ModuleOutcome run(std::span<const ModuleCase> cases, bool train, const CompileForward& compiled) {
  torch::manual_seed(1);
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  std::vector<std::size_t> counts;
  Tensors arguments;
  for (const ModuleCase& example : cases) {
    modules.push_back(example.make());
    modules.back()->train(train);
    const Tensors own = example.arguments();
    counts.push_back(own.size());
    arguments.insert(arguments.end(), own.begin(), own.end());
  }
  const TensorFunction forward = [&](const Tensors& in) {
    Tensors outputs;
    auto next = in.begin();
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto end = next + static_cast<std::ptrdiff_t>(counts[i]);
      const Tensors own = cases[i].forward(*modules[i], Tensors(next, end));
      outputs.insert(outputs.end(), own.begin(), own.end());
      next = end;
    }
    return outputs;
  };

  torch::manual_seed(2);
  ModuleOutcome outcome;
  outcome.outputs = compiled(forward)(arguments);
  torch::manual_seed(3);
  Tensors differentiable, tangents;
  for (const torch::Tensor& output : outcome.outputs) {
    if (output.requires_grad()) {
      differentiable.push_back(output);
      tangents.push_back(torch::randn_like(output));
    }
  }
  torch::autograd::backward(differentiable, tangents);
  for (const torch::Tensor& argument : arguments) {
    outcome.gradients.push_back(argument.grad());
  }
  for (const auto& module : modules) {
    for (const torch::Tensor& parameter : module->parameters()) {
      outcome.gradients.push_back(parameter.grad());
    }
    for (const torch::Tensor& buffer : module->buffers()) {
      outcome.buffers.push_back(buffer);
    }
  }
  return outcome;
}

void check_equal(const Tensors& found, const Tensors& expected, const std::string& what) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO(what << " " << i);
    CHECK(close(found[i], expected[i], {1e-4, 1e-5}));
  }
}

void check_modules(std::span<const ModuleCase> cases, const CompileForward& compiled) {
  std::string names;
  for (const ModuleCase& example : cases) {
    names += example.name + ", ";
  }
  for (const bool train : {true, false}) {
    INFO(names << (train ? "train" : "eval"));
    ModuleOutcome expected, found;
    const auto error = detail::error_of([&] {
      expected = run(cases, train, [](const TensorFunction& forward) { return forward; });
      found = run(cases, train, compiled);
    });
    if (!cases[0].refused.empty()) {
      CHECK_THAT(error.value_or("no error"), contains(cases[0].refused));
      CompileOptions options;
      options.fallback_to_eager = true;
      found = run(cases, train, [&](const TensorFunction& f) { return compile(f, options); });
      check_equal(found.outputs, expected.outputs, "output");
      check_equal(found.gradients, expected.gradients, "gradient");
      continue;
    }
    CHECK(error.value_or("no error") == "no error");
    if (!error) {
      check_equal(found.outputs, expected.outputs, "output");
      check_equal(found.gradients, expected.gradients, "gradient");
      check_equal(found.buffers, expected.buffers, "buffer");
    }
  }
}

void sweep(const std::vector<ModuleCase>& cases) {
  for (const ModuleCase& example : cases) {
    check_modules({&example, 1}, [](const TensorFunction& f) { return interpreted(f); });
  }

  std::vector<ModuleCase> compilable;
  for (const ModuleCase& example : cases) {
    if (example.refused.empty()) {
      compilable.push_back(example);
    }
  }
  constexpr std::size_t kTogether = 12;
  for (std::size_t i = 0; i < compilable.size(); i += kTogether) {
    check_modules(std::span(compilable).subspan(i, std::min(kTogether, compilable.size() - i)),
                  [](const TensorFunction& f) { return generated(f); });
  }
}

TEST_CASE("EX-50 test_aot_autograd_module_exhaustive: modules on elements", "[conformance][U]") {
  sweep(elementwise_modules());
}

TEST_CASE("EX-50 test_aot_autograd_module_exhaustive: modules with structure", "[conformance][U]") {
  sweep(structured_modules());
}

TEST_CASE("no module of torch::nn is left out", "[conformance][U]") {
  std::set<std::string> known;
  for (const auto& cases : {elementwise_modules(), structured_modules()}) {
    for (const ModuleCase& example : cases) {
      std::istringstream words(example.name);
      for (std::string word; words >> word;) {
        known.insert(word);
      }
    }
  }

  int count = 0;
  std::istringstream modules(kModulesOfTorch);
  for (std::string name; modules >> name; ++count) {
    INFO(name);
    CHECK(known.contains(name));
  }
  CHECK(count > 100);
}

}  // namespace
}  // namespace kiln::testing
