// Family H: outputs that are inputs or share memory with them.

#include "every_way.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::testing {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Returns its input, with a gradient of its own.
struct ScaledGradient : torch::autograd::Function<ScaledGradient> {
  static torch::Tensor forward(AutogradContext*, const torch::Tensor& x) { return x.view_as(x); }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {gradients[0] * 0.5};
  }
};

TEST_CASE("AD-69 test_input_output_aliase_custom_autograd_function: the custom backward is kept",
          "[conformance][H]") {
  const auto function = [](const Tensors& in) { return Tensors{ScaledGradient::apply(in[0])}; };

  check_every_way(function, leaves({{2, 2}}));
  check_every_way(function, computed({{2, 2}}));
}

TEST_CASE("a custom function between two outputs that share memory", "[conformance][H]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor y = in[0] * 2;
    return Tensors{y, ScaledGradient::apply(y)};
  };

  check_every_way(function, leaves({{2, 2}}));
}

TEST_CASE("AD-02 AD-61 test_input_output_view_simple: a view of an input", "[conformance][H]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].view({-1})}; };

  check_every_way(function, computed({{2, 2}}));
  check_every_way(function, leaves({{2, 2}}));
}

TEST_CASE("AD-61 test_input_output_view_mutate_multiple: views of inputs, one of them written",
          "[conformance][H]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(2);
    in[2].mul_(3);
    return Tensors{in[1].view({2, 2}), in[2].view({2, 2})};
  };

  check_every_way(function, computed({{2, 2}, {2, 2}, {2, 2}}));
}

TEST_CASE("AD-42 test_input_output_view_metadata_mutate_multiple: views of inputs that change",
          "[conformance][H]") {
  const auto function = [](const Tensors& in) {
    in[1].mul_(3);
    in[2].t_();
    return Tensors{in[0].view({2, 2}), in[1].view({2, 2}), in[2].view({2, 2})};
  };

  check_every_way(function, computed({{2, 2}, {2, 2}, {2, 2}}));
}

TEST_CASE("AD-61 test_input_mutation_and_output_view: a view of a written input",
          "[conformance][H]") {
  const auto function = [](const Tensors& in) {
    in[0].add_(1);
    return Tensors{in[0].view({-1})};
  };

  check_every_way(function, computed({{2, 2}}));
}

TEST_CASE("AD-40 test_input_mutation_output_view_multiple: shape of one, elements of another",
          "[conformance][H]") {
  const auto function = [](const Tensors& in) {
    in[1].transpose_(1, 0);
    in[2].add_(1);
    return Tensors{in[3] + 1, in[1].diagonal(), in[0] + in[2]};
  };

  check_every_way(function, computed({{2, 2}, {2, 2}, {2, 2}, {2, 2}}));
}

TEST_CASE(
    "AD-70 test_output_aliases_input_multi_output_view_should_raise_autograd_error: what eager "
    "refuses is refused",
    "[conformance][H]") {
  const TensorFunction function = interpreted([](const Tensors& in) { return in[0].unbind(0); });
  const torch::Tensor x = torch::ones({3, 3}, torch::requires_grad()).clone();

  const Tensors outputs = function({x});

  CHECK_THROWS_WITH(outputs[0].mul_(2), contains("Such functions do not allow the output views"));
}

TEST_CASE("AD-70 AD-71 test_output_aliases_input_multi_output_view: unbind alone and beside a view",
          "[conformance][H]") {
  const auto alone = [](const Tensors& in) { return in[0].unbind(0); };
  const auto beside = [](const Tensors& in) {
    Tensors outputs = in[0].unbind(0);
    outputs.push_back(in[0].view(in[0].sizes()));
    return outputs;
  };

  check_every_way(alone, computed({{3, 3}}));
  check_every_way(beside, computed({{3, 3}}));
  CHECK(interpreted(beside)({torch::ones({3, 3}, torch::requires_grad())})[0].grad_fn()->name() ==
        "UnbindBackward0");
}

TEST_CASE("AD-66 test_view_detach: a detached view shares memory only", "[conformance][H]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor tmp = in[0].detach();
    in[0].mul_(2);
    return Tensors{in[0], tmp};
  };

  check_every_way(function, computed({{3, 3}}));
}

TEST_CASE("a view that was made under no_grad", "[conformance][H]") {
  const auto function = [](const Tensors& in) {
    const torch::NoGradGuard no_grad;
    return Tensors{in[0].view({-1}), in[0].t()};
  };

  check_every_way(function, computed({{3, 3}}));
}

TEST_CASE(
    "AD-63 test_output_aliases_multiple_inputs_get_correct_one: each output comes from its input",
    "[conformance][H]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].view(in[0].sizes()), in[1].view(in[1].sizes())};
  };

  check_every_way(function, views({2, 2}, [](const torch::Tensor& base) {
                    return Tensors{base.view({-1}), base.select(0, 0)};
                  }));
}

TEST_CASE("AD-73 AD-74 test_output_aliases_input_view_meta_replay: the view itself is made again",
          "[conformance][H]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].view({-1})}; };

  for (const TensorFunction& compiled : {interpreted(function), generated(function)}) {
    const torch::Tensor out = compiled({torch::ones({2, 2}, torch::requires_grad())})[0];

    CHECK(out.grad_fn()->name() == "ViewBackward0");
  }
}

TEST_CASE("AD-42 AD-64 test_output_all_alias_types: views of inputs and of results at once",
          "[conformance][H]") {
  const auto function = [](const Tensors& in) {
    in[0].transpose_(1, 0);
    const torch::Tensor tmp = in[0].mul(2);
    return Tensors{tmp.squeeze(), tmp.transpose(1, 0), in[0].unsqueeze(0)};
  };

  check_every_way(function, computed({{2, 4}}));
}

TEST_CASE("AD-73 views that change the type of elements", "[conformance][H]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor complex = torch::view_as_complex(in[0]);
    return Tensors{complex, complex.conj(), torch::imag(complex), in[0].detach().view(torch::kInt)};
  };

  check_every_way(function, leaves({{3, 2}}));
}

}  // namespace
}  // namespace kiln::testing
