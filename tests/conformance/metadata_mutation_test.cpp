// Families F and G: inputs that get another shape, another memory, or start to require grad.

#include <ATen/native/Resize.h>

#include <algorithm>

#include "every_way.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::testing {
namespace {

TEST_CASE("AD-40 test_input_mutation_metadata: an input that is transposed in place",
          "[conformance][F]") {
  const auto function = [](const Tensors& in) {
    in[0].transpose_(1, 0);
    return Tensors{in[0] + in[1]};
  };

  check_every_way(function, computed({{3, 3}, {3, 3}}));
}

TEST_CASE("AD-41 test_input_mutation_metadata2: shape and elements change", "[conformance][F]") {
  const auto function = [](const Tensors& in) {
    in[0].transpose_(1, 0);
    in[0].mul_(2);
    return Tensors{in[0] + 1};
  };

  check_every_way(function, computed({{3, 4}}));
}

TEST_CASE("AD-41 test_input_data_and_metadata_mutation: a row of a transposed input is written",
          "[conformance][F]") {
  const auto function = [](const Tensors& in) {
    in[0].t_();
    in[0].select(0, 0).mul_(2);
    return Tensors{in[0].view(in[0].sizes())};
  };

  check_every_way(function, computed({{3, 3}}));
}

TEST_CASE("AD-40 AD-42 test_view_and_inplace_view: a view taken before the shape changes",
          "[conformance][F]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(1);
    const torch::Tensor view = in[0].view({-1});
    in[0].t_();
    return Tensors{view, in[0] * 2};
  };

  check_every_way(function, computed({{2, 4}}));
}

TEST_CASE(
    "AD-36 test_input_inplace_requires_grad_true: requires_grad_ inside is the caller's to see",
    "[conformance][F]") {
  const auto function = [](const Tensors& in) {
    in[1].requires_grad_(true);
    return Tensors{in[0].mul(3), in[1].mul(4)};
  };

  check_every_way(function, leaves({{3, 3}, {3, 3}}));
}

TEST_CASE("an input that loses its history", "[conformance][F]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor out = in[0] * 2;
    in[0].detach_();
    return Tensors{out, in[0] + 1};
  };

  check_every_way(function, computed({{3}}));
}

TEST_CASE("AD-43 test_input_mutation_set__input_mutation: an input moves onto another's memory",
          "[conformance][G]") {
  const auto function = [](const Tensors& in) {
    in[1].mul_(3);
    {
      const torch::NoGradGuard no_grad;
      in[0].set_(in[1]);
    }
    return Tensors{in[0] + in[1]};
  };

  check_every_way(function,
                  [](bool) { return Inputs(Tensors{torch::randn({3, 3}), torch::randn({3, 3})}); });
}

TEST_CASE(
    "AD-46 test_set__steals_view_chain: a write through a moved tensor reaches the new memory",
    "[conformance][G]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor a = in[0].mul(2).slice(0, 0, 4, 2);
    const torch::Tensor b = in[1].mul(2);
    const torch::Tensor view = b.slice(0, 1, 3);
    {
      const torch::NoGradGuard no_grad;
      a.set_(view);
      a.mul_(2);
    }
    return Tensors{b.clone(), a.clone()};
  };

  check_every_way(function,
                  [](bool) { return Inputs(Tensors{torch::ones({4}), torch::ones({4})}); });
}

TEST_CASE("AD-43 AD-44 CG-10 test_set__and_data_mutation_good: set_, then a write to the source",
          "[conformance][G]") {
  const auto function = [](const Tensors& in) {
    const torch::NoGradGuard no_grad;
    in[0].set_(in[1]);
    in[1].mul_(2);
    return Tensors{in[0] + in[1]};
  };

  check_every_way(function, leaves({{3, 3}, {3, 3}}));
}

TEST_CASE("AD-47 test_set__and_data_mutation_bad: a write to memory that an input has left",
          "[conformance][G]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor view = in[0].view({-1});
    const torch::Tensor other = torch::ones({3, 3});
    const torch::NoGradGuard no_grad;
    in[0].set_(other);
    view.mul_(2);
    return Tensors{in[0] + other};
  };

  check_every_way(function, leaves({{3, 3}}));
}

TEST_CASE("AD-48 test_set__not_allowed: set_ and a write that autograd sees", "[conformance][G]") {
  const auto function = [](const Tensors& in) {
    {
      const torch::NoGradGuard no_grad;
      in[0].set_(in[1]);
    }
    in[0].mul_(2);
    return Tensors{in[0] + in[1]};
  };
  const Inputs inputs = computed({{3, 3}, {3, 3}})(true);

  CHECK_THROWS_WITH(interpreted(function)(inputs.arguments),
                    contains("but the input has other mutations that we cannot"));
}

TEST_CASE("AD-45 test_input_mutation_set__nop: moves that cancel are none", "[conformance][G]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor b = torch::arange(9, torch::kFloat);
    const torch::Tensor old = at::alias(in[0]);
    {
      const torch::NoGradGuard no_grad;
      in[0].set_(b);
      in[0].set_(old);
    }
    return Tensors{in[0] + b.reshape({3, 3})};
  };

  check_every_way(function, leaves({{3, 3}}));
  const auto plan = autograd_dispatch::trace_joint(function, {torch::ones({3, 3})}).plan;
  CHECK(plan.writes.empty());
  REQUIRE(plan.changes.size() == 1);
  CHECK_FALSE(plan.changes[0].memory.has_value());
}

TEST_CASE("two inputs exchange their memory", "[conformance][G]") {
  const auto function = [](const Tensors& in) {
    const torch::NoGradGuard no_grad;
    const torch::Tensor first = in[0].detach();
    in[0].set_(in[1]);
    in[1].set_(first);
    return Tensors{in[0] - in[1]};
  };

  check_every_way(function, leaves({{3, 3}, {3, 3}}));
}

void resize_storage(const torch::Tensor& tensor, std::int64_t bytes) {
  at::native::resize_bytes_nocuda(tensor.storage(), bytes);
}

// What is left of a call and a backward: the first output, the second leaf's gradient, the bytes of
// the first argument, and its elements if it has any.
Tensors after_resize(const TensorFunction& function, bool freed) {
  torch::manual_seed(1);
  const torch::Tensor dummy = torch::randn({8});
  const torch::Tensor leaf = torch::randn({8}, torch::requires_grad());
  if (freed) {
    resize_storage(dummy, 0);
  }
  const torch::Tensor out = function({dummy, leaf})[0];
  out.sum().backward();
  const auto bytes = static_cast<std::int64_t>(dummy.storage().nbytes());
  return {out.detach(),
          leaf.grad(),
          torch::tensor({bytes}),
          bytes == 0 ? torch::zeros({0}) : dummy.clone()};
}

void check_resize(const TensorFunction& function, bool freed) {
  const Tensors expected = after_resize(function, freed);
  const TemporaryDirectory cache;
  for (const TensorFunction& compiled : {interpreted(function),
                                         interpreted(function, false, in_program_order),
                                         prepared(cached(function, cache)),
                                         prepared(cached(function, cache))}) {
    const Tensors found = after_resize(compiled, freed);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CHECK(close(found[i], expected[i], {}));
    }
  }
}

TEST_CASE("AD-49 test_input_mutation_storage_resize_up: a freed input gets memory and contents",
          "[conformance][G]") {
  check_resize(
      [](const Tensors& in) {
        resize_storage(in[0], 32);
        {
          const torch::NoGradGuard no_grad;
          in[0].copy_(torch::ones({8}));
        }
        return Tensors{in[0] * in[1].sin()};
      },
      true);
}

TEST_CASE("AD-50 test_input_mutation_storage_resize_down: an input is freed after use",
          "[conformance][G]") {
  check_resize(
      [](const Tensors& in) {
        const torch::Tensor out = in[0].sin() + in[1];
        resize_storage(in[0], 0);
        return Tensors{out};
      },
      false);
}

TEST_CASE("AD-51 CG-10 test_input_mutation_storage_resize_up_down: memory for the time of the call",
          "[conformance][G]") {
  const auto function = [](const Tensors& in) {
    resize_storage(in[0], 32);
    {
      const torch::NoGradGuard no_grad;
      in[0].copy_(torch::ones({8}));
    }
    const torch::Tensor out = in[0].clone() * in[1].sin();
    resize_storage(in[0], 0);
    return Tensors{out};
  };

  check_resize(function, true);
  const torch::Tensor freed = torch::randn({8});
  resize_storage(freed, 0);
  const auto plan =
      autograd_dispatch::trace_joint(function, {freed, torch::ones({8}, torch::requires_grad())})
          .plan;
  CHECK(plan.writes.empty());
  CHECK(std::none_of(plan.changes.begin(), plan.changes.end(), [](const auto& change) {
    return change.bytes.has_value();
  }));
}

// A parameter moves onto memory that was gathered for it.
struct CreateParameter : torch::autograd::Function<CreateParameter> {
  static torch::Tensor forward(torch::autograd::AutogradContext*,
                               const torch::Tensor& gathered,
                               const torch::Tensor& parameter) {
    return parameter.set_(gathered);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {{}, gradients[0]};
  }
};

TEST_CASE(
    "AD-52 test_input_mutation_storage_resize_down_and_set_: memory that is gathered for a "
    "parameter and freed after use",
    "[conformance][G]") {
  const auto function = [](const Tensors& in) {
    torch::Tensor gathered;
    {
      const torch::NoGradGuard no_grad;
      gathered = torch::cat({in[1], in[1]});
    }
    CreateParameter::apply(gathered, in[0]);
    const torch::Tensor out = in[0].sin();
    resize_storage(in[0], 0);
    return Tensors{out};
  };
  const torch::Tensor shard = torch::randn({8}, torch::requires_grad());
  const torch::Tensor gathered = torch::cat({shard, shard}).detach();
  const auto check = [&](const TensorFunction& called, bool compiled) {
    const torch::Tensor parameter = torch::zeros({16}, torch::requires_grad());
    resize_storage(parameter, 0);

    const torch::Tensor out = called({parameter, shard})[0];

    CHECK(torch::allclose(out, gathered.sin(), 1e-4, 1e-5));
    CHECK(parameter.is_leaf());
    CHECK(parameter.sizes() == torch::IntArrayRef{16});
    CHECK(parameter.storage().nbytes() == 0);
    if (compiled) {  // Eager's backward would read what was freed.
      out.sum().backward();
      CHECK(torch::allclose(parameter.grad(), gathered.cos(), 1e-4, 1e-5));
      CHECK_FALSE(shard.grad().defined());
    }
  };

  check(function, false);
  const TemporaryDirectory cache;
  for (const TensorFunction& compiled : {interpreted(function),
                                         interpreted(function, false, in_program_order),
                                         prepared(cached(function, cache)),
                                         prepared(cached(function, cache))}) {
    check(compiled, true);
  }
}

TEST_CASE("AD-53 test_input_mutation_storage_resize_before_set__not_supported: as in eager it is",
          "[conformance][G]") {
  check_resize(
      [](const Tensors& in) {
        const torch::NoGradGuard no_grad;
        resize_storage(in[0], 0);
        in[0].set_(torch::ones({8}));
        const at::AutoGradMode grad(true);
        return Tensors{in[0] * in[1].sin()};
      },
      false);
}

TEST_CASE("AD-54 test_input_mutation_storage_resize_not_supported: resize and a visible write",
          "[conformance][G]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(2);
    resize_storage(in[0], 0);
    return Tensors{torch::ones({8})};
  };
  const Inputs inputs = computed({{8}})(true);

  CHECK_THROWS_WITH(interpreted(function)(inputs.arguments),
                    contains("the input has other mutations that we cannot"));
}

TEST_CASE("AD-55 a storage is resized from nothing or to nothing", "[conformance][G]") {
  const auto function = [](const Tensors& in) {
    resize_storage(in[0], 64);
    return Tensors{in[0] * 2};
  };

  CHECK_THROWS_WITH(interpreted(function)({torch::zeros({8}, torch::requires_grad())}),
                    contains("may only be allocated (from 0 bytes) or freed (to 0 bytes)"));
}

}  // namespace
}  // namespace kiln::testing
