// Family U: every operator of a list, forward and gradients, against eager.

#include <set>

#include "every_way.hpp"
#include "kiln/testing/catch2.hpp"
#include "operator_cases.hpp"

namespace kiln::testing {
namespace {

Tensors make_operands() {
  torch::manual_seed(4);
  Tensors made;
  const std::vector<std::vector<std::int64_t>> shapes = {
      {3, 4}, {3, 4}, {4, 3}, {3, 3}, {4, 4}, {4}, {2, 3, 8, 8}, {4, 3, 3, 3}};
  for (const auto& shape : shapes) {
    made.push_back((0.1 + 0.8 * torch::rand(shape)).requires_grad_());
  }
  return made;
}

struct Outcome {
  torch::Tensor value;
  Tensors gradients;
};

Outcome run(const TensorFunction& function) {
  const Tensors operands = make_operands();
  torch::manual_seed(5);
  Outcome outcome;
  outcome.value = function(operands)[0];
  if (outcome.value.requires_grad()) {
    torch::manual_seed(6);
    outcome.gradients = torch::autograd::grad({outcome.value},
                                              operands,
                                              {torch::randn_like(outcome.value)},
                                              /*retain_graph=*/false,
                                              /*create_graph=*/false,
                                              /*allow_unused=*/true);
  }
  return outcome;
}

void sweep(const std::vector<OperatorCase>& cases) {
  for (const OperatorCase& example : cases) {
    const TensorFunction function = [&](const Tensors& in) {
      return Tensors{example.program({in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7]})};
    };
    INFO(example.name);
    std::string error;
    Outcome expected, found;
    try {
      expected = run(function);
      found = run(interpreted(function));
    } catch (const c10::Error& thrown) {
      error = thrown.what_without_backtrace();
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    CHECK(error == "");
    if (!error.empty()) {
      continue;
    }
    CHECK(found.value.strides() == expected.value.strides());
    CHECK(found.value.requires_grad() == expected.value.requires_grad());
    CHECK(close(found.value, expected.value, {1e-5, 1e-6}));
    for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
      CAPTURE(i);
      CHECK(close(found.gradients[i], expected.gradients[i], {1e-4, 1e-5}));
    }
  }
}

TEST_CASE("EX-49 test_aot_autograd_exhaustive: operators on elements", "[like_eager][U]") {
  sweep(pointwise_cases());
}

TEST_CASE("EX-49 test_aot_autograd_exhaustive: operators that reduce, move and multiply",
          "[like_eager][U]") {
  sweep(structured_cases());
}

TEST_CASE("the list has no fewer than 250 operators, each once", "[like_eager][U]") {
  std::set<std::string> names;
  for (const auto& cases : {pointwise_cases(), structured_cases()}) {
    for (const OperatorCase& example : cases) {
      CHECK(names.insert(example.name).second);
    }
  }
  CHECK(names.size() >= 250);
}

}  // namespace
}  // namespace kiln::testing
