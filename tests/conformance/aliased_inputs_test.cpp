// Families J and K: inputs that share memory with each other, and inputs that are the same tensor.

#include "every_way.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::testing {
namespace {

using autograd_dispatch::CompiledFunction;
using autograd_dispatch::dispatch;
using autograd_dispatch::trace_joint;

TEST_CASE(
    "AD-85 test_input_data_and_metadata_mutation_aliases_other_input: elements of one, shape of "
    "the other",
    "[conformance][J]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(2);
    in[1].t_();
    return Tensors{in[0].mul(in[1])};
  };

  check_every_way(function, views({2, 3, 3}, [](const torch::Tensor& base) {
                    return Tensors{base.select(0, 0), base.select(0, 0)};
                  }));
}

TEST_CASE("AD-86 test_input_mutation_false_aliasing: one storage without a common element",
          "[conformance][J]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(3);
    in[1].mul_(2);
    return Tensors{in[0].clone().reshape({-1}) + in[1].clone().reshape({-1})};
  };
  const auto inputs_of = [&](const torch::Tensor& a, const torch::Tensor& b) {
    return trace_joint(function, {a, b}).plan.inputs.size();
  };
  const auto rows = [](const torch::Tensor& x) {
    return Tensors{x.slice(0, 0, 2), x.slice(0, 2, 4)};
  };
  const auto columns = [](const torch::Tensor& x) {
    return Tensors{x.slice(1, 0, 2), x.slice(1, 2, 4)};
  };
  const auto block = [](const torch::Tensor& x, std::int64_t stride, std::int64_t offset) {
    return x.as_strided({4, 4}, {stride, 1}, offset);
  };

  check_every_way(function, views({4, 4}, rows));
  check_every_way(function, views({4, 4}, columns));
  const torch::Tensor x = torch::ones({260}, torch::requires_grad()).clone();
  for (const std::int64_t disjoint : {22, 23}) {
    CHECK(inputs_of(block(x, 9, 0).view({4, 4}), block(x, 9, disjoint)) == 2);
  }
  for (const std::int64_t overlapping : {24, 25}) {
    CHECK(inputs_of(block(x, 9, 0), block(x, 9, overlapping)) == 1);
  }
  CHECK(inputs_of(block(x, 8, 0), block(x, 8, 28)) == 2);
  const torch::Tensor cube = x.as_strided({4, 4, 4}, {48, 16, 1}, 0);  // Ends with element 195.
  CHECK(inputs_of(cube, x.slice(0, 196, 260)) == 2);
  CHECK(inputs_of(cube, x.slice(0, 195, 259)) == 1);
}

TEST_CASE(
    "AD-80 AD-81 AD-83 test_input_mutation_aliases_other_input: what is written through one is "
    "read through the other",
    "[conformance][J]") {
  const auto function = [](const Tensors& in) {
    in[0].add_(1);
    return Tensors{in[0] + in[1]};
  };

  check_every_way(function, views({4, 2}, [](const torch::Tensor& base) {
                    return Tensors{base.select(0, 0), base.select(0, 0)};
                  }));
}

TEST_CASE("AD-81 test_input_mutation_aliases_other_input2: a row and the whole",
          "[conformance][J]") {
  const auto function = [](const Tensors& in) {
    in[0].add_(1);
    return Tensors{in[0] + in[1]};
  };

  check_every_way(function, views({2, 2}, [](const torch::Tensor& base) {
                    return Tensors{base.select(0, 0), base};
                  }));
}

TEST_CASE("AD-84 test_input_mutation_aliases_and_output_alias: a view of the other one is returned",
          "[conformance][J]") {
  const auto function = [](const Tensors& in) {
    in[0].add_(1);
    return Tensors{in[1].view(in[1].sizes())};
  };

  check_every_way(function, views({2, 2}, [](const torch::Tensor& base) {
                    return Tensors{base.view({-1}), base.view({-1})};
                  }));
}

TEST_CASE("AD-84 test_input_aliased_with_mutation_output_alias: three inputs, two of one memory",
          "[conformance][J]") {
  const auto function = [](const Tensors& in) {
    in[2].mul_(2);
    return Tensors{in[1].add(1), in[2].view({-1})};
  };

  check_every_way(function, [](bool requires_grad) {
    const torch::Tensor base1 = torch::randn({2, 2}, torch::requires_grad(requires_grad));
    const torch::Tensor base2 = torch::randn({2, 2}, torch::requires_grad(requires_grad));
    const torch::Tensor x = base1.add(1);
    return Inputs({base1, base2}, {x.view({-1}), base2.add(1), x.view({-1})});
  });
}

TEST_CASE("AD-80 test_input_metadata_mutation_aliases: a change of shape needs no common base",
          "[conformance][J]") {
  const auto function = [](const Tensors& in) {
    in[0].t_();
    return Tensors{in[0] + in[1]};
  };
  const MakeInputs twice = views({3, 3}, [](const torch::Tensor& base) {
    return Tensors{base.view({3, 3}), base.view({3, 3})};
  });

  check_every_way(function, twice);
  CHECK(trace_joint(function, twice(true).arguments).plan.inputs.size() == 2);
}

TEST_CASE("AD-82 test_input_mutation_aliases_and_none_require_gradients: without gradients",
          "[conformance][J]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(2);
    return Tensors{in[1] + 1, in[2] + 1};
  };

  check_every_way(function, [](bool requires_grad) {
    const torch::Tensor base = torch::randn({2, 2});
    const torch::Tensor c = torch::randn({2, 2}, torch::requires_grad(requires_grad));
    const torch::Tensor x = base.add(1);
    return Inputs({base, c}, {x.view({-1}), x.view({-1}), c});
  });
}

TEST_CASE(
    "AD-81 AD-85 AD-87 test_input_mutation_aliases_bases_out_of_order: bases, shapes and elements "
    "mixed",
    "[conformance][J]") {
  const auto function = [](const Tensors& in) {
    in[1].add_(1);
    in[3].unsqueeze_(0);
    return Tensors{in[0] + in[2] + in[3], in[1].view({-1})};
  };

  check_every_way(function, [](bool requires_grad) {
    const torch::Tensor base1 = torch::randn({2, 2}, torch::requires_grad(requires_grad));
    const torch::Tensor base2 = torch::randn({2, 2}, torch::requires_grad(requires_grad));
    const torch::Tensor x1 = base1.add(1);
    const torch::Tensor x2 = base2.add(1);
    // a and c alias, b and d alias.
    return Inputs({base1, base2}, {x1.view({-1}), x2.view({-1}), x1.view({-1}), x2.view({-1})});
  });
}

TEST_CASE(
    "AD-82 test_synthetic_base_base_attribute_is_none: aliases that autograd does not know of",
    "[conformance][J]") {
  const auto function = [](const Tensors& in) {
    in[0].add_(1);
    return Tensors{in[0] + in[1]};
  };

  check_every_way(function, [](bool) {
    const torch::Tensor base = torch::randn({4, 4});
    const torch::Tensor a = base.slice(0, 0, 2);
    return Inputs(Tensors{base.detach().slice(0, 0, 2).detach(), a.detach()});
  });
}

TEST_CASE("AD-90 test_input_mutation_alias_everything: all at once", "[conformance][J]") {
  const auto function = [](const Tensors& in) {
    in[2].mul_(2);
    in[1].t_();
    const torch::Tensor tmp = in[0] + in[2];
    const torch::Tensor out1 = tmp.view({-1});
    return Tensors{out1, in[1].t(), out1.unsqueeze(0)};
  };

  check_every_way(function, [](bool requires_grad) {
    const torch::Tensor base1 = torch::randn({2, 2}, torch::requires_grad(requires_grad));
    const torch::Tensor base2 = torch::randn({2, 2}, torch::requires_grad(requires_grad));
    const torch::Tensor x = base1.add(1);
    return Inputs({base1, base2}, {x.view({-1}), base2.add(1), x.view({-1})});
  });
}

TEST_CASE("a detached alias of a written input sees the elements, not the history",
          "[conformance][J]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(2);
    return Tensors{in[0] * in[1]};
  };

  check_every_way(
      function, views({3}, [](const torch::Tensor& base) { return Tensors{base, base.detach()}; }));
}

TEST_CASE("AD-88 inputs without a common base whose writes autograd sees are refused",
          "[conformance][J]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(in[2]);
    return Tensors{in[0] + in[1]};
  };
  const torch::Tensor memory = torch::ones({4});
  const torch::Tensor a = memory.detach();
  const torch::Tensor b = memory.slice(0, 0, 4);

  CHECK_THROWS_WITH(interpreted(function)({a, b, torch::ones({4}, torch::requires_grad())}),
                    contains("views of one tensor"));
}

TEST_CASE("AD-95 test_dupe_arg: one tensor twice gets its gradient once for each use",
          "[conformance][K]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0] * 2 + in[1]}; };

  check_every_way(function, [](bool requires_grad) {
    const torch::Tensor x = torch::randn({3, 3}, torch::requires_grad(requires_grad));
    return Inputs(Tensors{x, x});
  });
}

TEST_CASE("AD-96 test_dupe_arg_torture: one tensor twice, its shape changed twice",
          "[conformance][K]") {
  const auto function = [](const Tensors& in) {
    in[0].t_();
    in[1].unsqueeze_(0);
    return Tensors{in[0] + in[1]};
  };

  check_every_way(function, [](bool requires_grad) {
    const torch::Tensor leaf = torch::randn({3, 3}, torch::requires_grad(requires_grad));
    const torch::Tensor x = leaf.clone();
    return Inputs({leaf}, {x, x});
  });
}

TEST_CASE("AD-97 test_dupe_arg_returned_as_output: the returned duplicate is the caller's tensor",
          "[conformance][K]") {
  const auto function = [](const Tensors& in) {
    in[0].select(0, 0).add_(1);
    return Tensors{in[2]};
  };

  check_every_way(function, [](bool requires_grad) {
    const torch::Tensor leaf = torch::ones({2}, torch::requires_grad(requires_grad));
    const torch::Tensor a = leaf.clone();
    return Inputs({leaf}, {a, torch::ones({2}), a});
  });
}

torch::Tensor writable() {
  return torch::randn({3, 3}, torch::requires_grad()).clone();
}

TEST_CASE(
    "AD-96 AD-98 test_invalid_dupe_left_bias: compiled for duplicates, called with two tensors",
    "[conformance][K]") {
  const auto function = [](const Tensors& in) {
    in[0].t_();
    return Tensors{in[0] + in[1]};
  };
  const torch::Tensor x = writable();
  const CompiledFunction twice =
      dispatch(trace_joint(function, {x, x}), {.partition = by_minimum_cut});

  twice({x, x});
  CHECK_THROWS_WITH(twice({writable(), writable()}),
                    contains("argument 1 would be a duplicate of argument 0"));
}

TEST_CASE("AD-98 AD-99 test_invalid_dupe: neither takes the other's arguments",
          "[conformance][K]") {
  const auto function = [](const Tensors& in) {
    in[0].unsqueeze_(0);
    in[1].unsqueeze_(0);
    return Tensors{in[0] + in[1]};
  };
  const CompiledFunction apart =
      dispatch(trace_joint(function, {writable(), writable()}), {.partition = by_minimum_cut});
  const torch::Tensor x = writable();
  const CompiledFunction twice =
      dispatch(trace_joint(function, {x, x}), {.partition = by_minimum_cut});

  const torch::Tensor y = writable();
  apart({writable(), writable()});
  CHECK_THROWS_WITH(apart({y, y}), contains("which is written"));
  twice({y, y});
  CHECK_THROWS_WITH(twice({writable(), writable()}),
                    contains("argument 1 would be a duplicate of argument 0"));
}

TEST_CASE("as_strided finds what eager does, wherever in its storage the tensor begins",
          "[conformance][K]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].as_strided({2, 2}, {2, 1}, 3) * 2};
  };
  CompileOptions options;
  options.use_cache = false;
  const Function fast = compile(function, options);
  const torch::Tensor memory = torch::randn({16});
  for (const std::int64_t begin : {0, 2, 0, 1, 2}) {
    CAPTURE(begin);
    const torch::Tensor x = memory.slice(0, begin, begin + 8);
    CHECK(torch::equal(fast({x})[0], function({x})[0]));
  }
  CHECK(fast.report().versions == 3);
}

TEST_CASE("AD-15 AD-100 test_invalid_requires_grad: compiled without a gradient, called with one",
          "[conformance][K]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0] + in[1]}; };
  const torch::Tensor x = torch::randn({3, 3}, torch::requires_grad());
  const torch::Tensor y = torch::randn({3, 3}, torch::requires_grad());
  const torch::Tensor z = torch::randn({3, 3});
  const CompiledFunction with =
      dispatch(trace_joint(function, {x, y}), {.partition = by_minimum_cut});
  const CompiledFunction without =
      dispatch(trace_joint(function, {x, z}), {.partition = by_minimum_cut});

  CHECK(torch::equal(with({x, z})[0], x + z));
  CHECK(torch::equal(without({x, z})[0], x + z));
  CHECK_THROWS_WITH(without({x, y}), contains("argument 1 would not require grad"));
}

}  // namespace
}  // namespace kiln::testing
