// Family I: outputs that share memory with a tensor computed inside, or with each other.

#include "every_way.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::testing {
namespace {

TEST_CASE("AD-65 test_outputs_are_aliased: one tensor and its view", "[conformance][I]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor b = in[0].mul(2);
    const torch::Tensor c = b.view({-1});
    return Tensors{b, c};
  };

  check_every_way(function, leaves({{3, 3}}));
}

TEST_CASE(
    "AD-67 test_output_aliases_intermediate_single: one view of a tensor that is not returned",
    "[conformance][I]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].mul(3).view({-1})}; };

  check_every_way(function, leaves({{3, 3}}));
}

TEST_CASE(
    "AD-72 test_output_aliases_intermediate_multi_output_view: unbind of a result, alone and "
    "beside views",
    "[conformance][I]") {
  const auto alone = [](const Tensors& in) { return in[0].mul(3).unbind(0); };
  const auto beside_one = [](const Tensors& in) {
    const torch::Tensor out = in[0].mul(3);
    Tensors outputs = out.unbind(0);
    outputs.push_back(out);
    return outputs;
  };
  const auto beside_view = [](const Tensors& in) {
    const torch::Tensor out = in[0].mul(3);
    Tensors outputs = out.unbind(0);
    outputs.push_back(out.view(out.sizes()));
    return outputs;
  };
  const auto beside_two = [](const Tensors& in) {
    const torch::Tensor out = in[0].mul(3);
    Tensors outputs = out.unbind(0);
    outputs.push_back(out);
    outputs.push_back(out.view(out.sizes()));
    return outputs;
  };

  check_every_way(alone, leaves({{3, 3}}));
  check_every_way(beside_one, leaves({{3, 3}}));
  check_every_way(beside_view, leaves({{3, 3}}));
  check_every_way(beside_two, leaves({{3, 3}}));
}

TEST_CASE("AD-67 test_output_aliases_intermediate_mutation_linear: the view may be written",
          "[conformance][I]") {
  const auto function = [](const Tensors& in) { return Tensors{(in[0] + 1).view({-1})}; };

  check_every_way(function, leaves({{3, 3}}));
}

TEST_CASE("AD-68 test_output_aliases_intermediate_no_grad: a view of a result without gradient",
          "[conformance][I]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].mul(3).view({-1}), in[1].add(1)};
  };

  check_every_way(function, [](bool requires_grad) {
    return Inputs(
        Tensors{torch::ones({3, 3}), torch::ones({3, 3}, torch::requires_grad(requires_grad))});
  });
}

TEST_CASE("AD-65 test_output_aliases_intermediate_returned_multiple_times: the same object twice",
          "[conformance][I]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor out = in[0].mul(3);
    return Tensors{out, out.view({-1}), out};
  };

  check_every_way(function, leaves({{3, 3}}));
}

TEST_CASE("AD-64 test_output_aliases_intermediate_multiple: two views of one result",
          "[conformance][I]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor out = in[0].mul(3);
    return Tensors{out.view({-1}), out.view({-1})};
  };

  check_every_way(function, leaves({{3, 3}}));
}

TEST_CASE("AD-65 test_output_aliases_intermediate_and_returned: a view, then its base",
          "[conformance][I]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor out = in[0].mul(3);
    return Tensors{out.view({-1}), out};
  };

  check_every_way(function, leaves({{3, 3}}));
}

TEST_CASE("AD-65 test_output_aliases_intermediate_and_returned_flipped: a base, then its view",
          "[conformance][I]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor out = in[0].mul(3);
    return Tensors{out, out.view({-1})};
  };

  check_every_way(function, leaves({{3, 3}}));
}

TEST_CASE(
    "AD-66 test_output_aliases_intermediate_and_returned_different_grad: a detached view besides",
    "[conformance][I]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor out = in[0].mul(3);
    return Tensors{out.view({-1}), out, out.select(0, 0).detach()};
  };
  const auto detached_first = [](const Tensors& in) {
    const torch::Tensor out = in[0].mul(3);
    const torch::Tensor detached = out.detach();
    return Tensors{detached, detached.view({-1}), out};
  };

  check_every_way(function, leaves({{3, 3}}));
  check_every_way(detached_first, leaves({{3, 3}}));
}

TEST_CASE("AD-75 test_output_aliases_intermediate_inplace_view: a result transposed in place",
          "[conformance][I]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor out = in[0].mul(3);
    out.t_();
    return Tensors{out};
  };

  check_every_way(function, leaves({{2, 4}}));
}

TEST_CASE("AD-75 test_output_aliases_intermediate_inplace_view_with_detach: and detached in place",
          "[conformance][I]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor out = in[0].mul(3);
    out.t_();
    out.detach_();
    return Tensors{out, in[0] + 1};
  };

  check_every_way(function, leaves({{2, 4}}));
}

TEST_CASE("AD-75 test_output_aliases_intermediate_inplace_view_and_view: views before and after",
          "[conformance][I]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor out = in[0].mul(3);
    const torch::Tensor before = out.unsqueeze(0);
    out.t_();
    const torch::Tensor after = out.unsqueeze(0);
    return Tensors{before, out, after};
  };

  check_every_way(function, leaves({{2, 4}}));
}

TEST_CASE("AD-64 test_output_aliases_intermediate_multiple_mixed: two results, three views",
          "[conformance][I]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor out1 = in[0].mul(3);
    const torch::Tensor out2 = in[0].mul(4);
    return Tensors{out1.view({-1}), out2.transpose(1, 0), out1.transpose(1, 0)};
  };

  check_every_way(function, leaves({{3, 3}}));
}

TEST_CASE(
    "AD-73 AD-74 test_output_aliases_intermediate_view_meta_replay: views are made again from the "
    "result",
    "[conformance][I]") {
  const TensorFunction function = interpreted([](const Tensors& in) {
    const torch::Tensor b = in[0].clone();
    return Tensors{b.view({-1}), b.view({-1})};
  });

  const Tensors outputs = function({torch::ones({2, 2}, torch::requires_grad())});

  CHECK(outputs[0].grad_fn()->name() == "ViewBackward0");
  CHECK(outputs[1].grad_fn()->name() == "ViewBackward0");
}

TEST_CASE("AD-74 test_output_aliases_output_view_meta_replay: views are made again from the output",
          "[conformance][I]") {
  const TensorFunction function = interpreted([](const Tensors& in) {
    const torch::Tensor b = in[0].add(10);
    return Tensors{b, b.view({-1})};
  });

  const Tensors outputs = function({torch::ones({2, 2}, torch::requires_grad())});

  CHECK(outputs[1].is_alias_of(outputs[0]));
  CHECK(outputs[1].grad_fn()->name() == "ViewBackward0");
}

}  // namespace
}  // namespace kiln::testing
