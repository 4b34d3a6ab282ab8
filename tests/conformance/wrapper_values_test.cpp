// Family P: values that wrap tensors.

#include "wrapper_values.hpp"

#include "every_way.hpp"
#include "kiln/autograd_dispatch/typed_function.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::testing {
namespace {

using autograd_dispatch::backward;
using autograd_dispatch::gradient_of;
using autograd_dispatch::put_together;
using autograd_dispatch::Structure;
using autograd_dispatch::take_apart;
using autograd_dispatch::TypedFunction;
using Pair = Two<torch::Tensor>;

template <class F>
auto interpreted_values(F function) {
  return TypedFunction(
      function, [](TensorFunction dense, const auto&) { return interpreted(std::move(dense)); });
}

template <class F>
auto generated_values(F function) {
  CompileOptions options;
  options.use_cache = false;
  return compile(function, options);
}

template <class... Arguments>
struct Example {
  Tensors leaves;
  std::tuple<Arguments...> arguments;
};

// `function` compiled against `function` itself, on all tensors inside what goes in and comes out.
template <class F, class Make>
void check_values(F function, Make make) {
  using List = decltype(make(false).arguments);
  const Structure structure = take_apart(make(false).arguments).structure;
  const auto on_tensors = [&](auto called) {
    return TensorFunction([=](const Tensors& in) {
      return take_apart(std::apply(called, put_together<List>({in, structure}))).tensors;
    });
  };
  for (const bool requires_grad : {true, false}) {
    CAPTURE(requires_grad);
    const auto inputs = [&] {
      const auto made = make(requires_grad);
      return Inputs(made.leaves, take_apart(made.arguments).tensors);
    };
    check_like_eager(on_tensors(function), on_tensors(interpreted_values(function)), inputs);
    check_like_eager(on_tensors(function), on_tensors(generated_values(function)), inputs);

    const List eager = make(requires_grad).arguments;
    CHECK(take_apart(std::apply(generated_values(function), eager)).structure ==
          take_apart(std::apply(function, eager)).structure);
  }
}

// A plain tensor and a pair, of leaves or computed from them.
Example<torch::Tensor, Pair> tensor_and_pair(bool requires_grad) {
  const Tensors leaves =
      testing::leaves(std::vector<std::vector<std::int64_t>>(3, {3, 3}))(requires_grad).leaves;
  return {leaves, {leaves[0].add(1), {leaves[1].add(1), leaves[2].add(1)}}};
}

TEST_CASE("AD-140 test_aot_dispatch_simple: a tensor and a pair", "[conformance][P]") {
  const auto function = [](const torch::Tensor& a, const Pair& b) { return a * 6 + b * 0.5; };

  check_values(function, tensor_and_pair);
}

TEST_CASE("AD-140 the gradient of a wrapper is a wrapper", "[conformance][P]") {
  const auto function = [](const torch::Tensor& a, const Pair& b) { return a * b; };
  const auto gradients = [](const auto& called) {
    torch::manual_seed(1);
    const Pair b{torch::randn({3}).requires_grad_(), torch::randn({3}).requires_grad_()};
    const torch::Tensor a = torch::randn({3}).requires_grad_();
    backward(called(a, b), Pair{torch::randn({3}), torch::randn({3})});
    return Tensors{gradient_of(a), gradient_of(b).a, gradient_of(b).b};
  };

  const Tensors expected = gradients(function);
  const Tensors found = gradients(generated_values(function));

  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(torch::allclose(found[i], expected[i]));
  }
}

TEST_CASE("AD-140 test_aot_dispatch_inference: without gradients there is no backward",
          "[conformance][P]") {
  const auto function = [](const torch::Tensor& a, const Pair& b) { return a * 6 + b * 0.5; };
  std::vector<std::string> names;
  CompileOptions options;
  options.use_cache = false;  // Which cannot keep what a compiler of the test's own makes.
  options.inference_compiler = [&](const ir::Graph& graph) {
    names.push_back(graph.name());
    return autograd_dispatch::interpret(graph);
  };
  const auto compiled = compile(function, options);
  const auto [a, b] = tensor_and_pair(false).arguments;

  const Pair found = compiled(a, b);

  const Pair expected = function(a, b);
  CHECK(torch::equal(found.a, expected.a));
  CHECK(torch::equal(found.b, expected.b));
  CHECK(names == std::vector<std::string>{"inference"});
}

TEST_CASE("AD-144 test_aot_dispatch_incorrect_backward: a gradient of another kind is refused",
          "[conformance][P]") {
  const auto function = [](const torch::Tensor& a, const Pair& b) {
    return std::pair(a * 2 * (b * 3), a + a);
  };
  check_values(function, tensor_and_pair);

  const auto [a, b] = tensor_and_pair(true).arguments;
  const auto [wrapped, plain] = generated_values(function)(a, b);

  CHECK_THROWS_WITH(backward(wrapped, torch::ones({3, 3})),
                    contains("gradient should have the structure of the output"));
  CHECK_THROWS_WITH(backward(plain, wrapped),
                    contains("gradient should have the structure of the output"));
}

TEST_CASE("AD-143 test_aot_dispatch_output_alias: a view of a wrapper's tensors",
          "[conformance][P]") {
  const auto function = [](const torch::Tensor& a, const Pair& b) {
    return std::pair(Pair{b.a.view(b.a.sizes()), b.b.view(b.b.sizes())}, a * b);
  };

  check_values(function, tensor_and_pair);
}

TEST_CASE("AD-143 AD-147 test_aot_dispatch_input_mutation: a wrapper's tensors are written",
          "[conformance][P]") {
  const auto function = [](const torch::Tensor& a, const Pair& b) {
    a.mul_(2);
    b.a.mul_(3);
    b.b.mul_(3);
    return a * b;
  };

  check_values(function, tensor_and_pair);
}

TEST_CASE("AD-145 test_aot_dispatch_input_metadata_mutation: and get another shape",
          "[conformance][P]") {
  const auto function = [](const torch::Tensor& a, const Pair& b) {
    a.t_();
    b.a.unsqueeze_(0);
    b.b.unsqueeze_(0);
    return a * b;
  };

  check_values(function, tensor_and_pair);
}

TEST_CASE("AD-145 test_aot_dispatch_input_data_and_metadata_mutation: both at once",
          "[conformance][P]") {
  const auto function = [](const torch::Tensor& a, const Pair& b) {
    a.t_();
    b.a.unsqueeze_(0);
    b.b.unsqueeze_(0);
    a.mul_(2);
    b.a.mul_(3);
    b.b.mul_(3);
    return a * b;
  };

  check_values(function, tensor_and_pair);
}

TEST_CASE("AD-143 test_aot_dispatch_input_mutation_and_output_alias: a view of what was written",
          "[conformance][P]") {
  const auto function = [](const torch::Tensor& a, const Pair& b) {
    a.mul_(2);
    b.a.mul_(3);
    b.b.mul_(3);
    return std::pair(Pair{b.a.view(b.a.sizes()), b.b.view(b.b.sizes())}, a * b);
  };

  check_values(function, tensor_and_pair);
}

TEST_CASE("AD-145 test_subclass_metadata_mutation: transposed inside, its views returned",
          "[conformance][P]") {
  const auto function = [](const Pair& b) {
    b.a.transpose_(1, 0);
    b.b.transpose_(1, 0);
    const Pair doubled = b * 2;
    return std::tuple(Pair{doubled.a.squeeze(), doubled.b.squeeze()},
                      Pair{doubled.a.transpose(1, 0), doubled.b.transpose(1, 0)},
                      Pair{b.a.unsqueeze(0), b.b.unsqueeze(0)});
  };

  check_values(function, [](bool requires_grad) {
    const auto made = tensor_and_pair(requires_grad);
    return Example<Pair>{made.leaves, {std::get<1>(made.arguments)}};
  });
}

TEST_CASE("AD-146 AD-89 a wrapper whose tensors are views of one another is written",
          "[conformance][P]") {
  const auto function = [](const Pair& b) {
    b.a.mul_(2);
    return b * b;
  };

  check_values(function, [](bool requires_grad) {
    const torch::Tensor leaf = torch::randn({4, 4}).requires_grad_(requires_grad);
    const torch::Tensor base = leaf.add(1);
    return Example<Pair>{{leaf}, {Pair{base.t().slice(0, 0, 4, 2), base.slice(0, 1, 3)}}};
  });
}

using Nested = Two<Pair>;

Example<Nested> nested(bool requires_grad) {
  const Tensors leaves =
      testing::leaves(std::vector<std::vector<std::int64_t>>(4, {4}))(requires_grad).leaves;
  return {leaves, {Nested{{leaves[0], leaves[1]}, {leaves[2], leaves[3]}}}};
}

TEST_CASE("AD-141 test_nested_subclasses: wrappers of wrappers, gradients nested alike",
          "[conformance][P]") {
  const auto function = [](const Nested& x) { return sine(x) * x; };
  check_values(function, nested);

  const Nested x = std::get<0>(nested(true).arguments);
  const Two<Nested> deeper{x, x};
  const auto compiled = generated_values([](const Two<Nested>& in) { return sine(in); });
  backward(compiled(deeper), deeper);

  const Two<Nested> gradient = gradient_of(deeper);
  CHECK(torch::allclose(gradient.b.a.b, x.a.b.cos() * x.a.b * 2));  // The same leaf twice.
}

TEST_CASE("AD-144 test_nested_subclasses_non_nested_grad: a gradient less deep is refused",
          "[conformance][P]") {
  const Nested x = std::get<0>(nested(true).arguments);
  const auto compiled = generated_values([](const Nested& in) { return sine(in); });

  const Nested out = compiled(x);

  CHECK_THROWS_WITH(backward(out, Pair{torch::ones({4}), torch::ones({4})}),
                    contains("gradient should have the structure of the output"));
  CHECK_NOTHROW(backward(out, out));
}

TEST_CASE("AD-141 test_nested_subclasses_complicated_inps: inner tensors, wrappers, plain ones",
          "[conformance][P]") {
  const auto function = [](const Nested& x, const Pair& y, const torch::Tensor& z) {
    const torch::Tensor sum = total(x.a + y) + total(x.b.a + y.b) + z;
    return sum * sine(x);
  };

  check_values(function, [](bool requires_grad) {
    const auto outer = nested(requires_grad);
    const Tensors more = leaves({{4}, {4}, {}})(requires_grad).leaves;
    Tensors all = outer.leaves;
    all.insert(all.end(), more.begin(), more.end());
    return Example<Nested, Pair, torch::Tensor>{
        all, {std::get<0>(outer.arguments), Pair{more[0], more[1]}, more[2]}};
  });
}

// What is rounded to integers, and gradients of scales that are sums of large numbers: single
// precision would leave it to the last bit whether two ways to compute them agree.
torch::Tensor doubles(std::vector<std::int64_t> shape) {
  return torch::randn(shape, torch::kDouble);
}

Example<ScaledQuantized, torch::Tensor> quantized_and_tensor(bool requires_grad) {
  ScaledQuantized weight = quantized(doubles({4, 3}), /*axis=*/1, /*zero=*/2.5);
  weight.scale.requires_grad_(requires_grad);
  const torch::Tensor x = doubles({2, 4}).requires_grad_(requires_grad);
  return {{weight.scale, x}, {weight, x}};
}

TEST_CASE("AD-142 test_custom_tensor_metadata: constants of a wrapper are computed with",
          "[conformance][P]") {
  const auto function = [](const ScaledQuantized& weight, const torch::Tensor& x) {
    return std::pair(x.matmul(weight.dequantized()) * weight.zero,
                     quantized(x, weight.axis, weight.zero + 1));
  };

  check_values(function, quantized_and_tensor);
}

TEST_CASE("AD-142 a wrapper with another constant is compiled again", "[conformance][P]") {
  int compiled = 0;
  CompileOptions options;
  options.use_cache = false;  // Which cannot keep what a compiler of the test's own makes.
  options.inference_compiler = [&](const ir::Graph& graph) {
    ++compiled;
    return autograd_dispatch::interpret(graph);
  };
  const auto function = compile([](const ScaledQuantized& q) { return q.dequantized(); }, options);
  const auto check = [&](double zero) {
    const ScaledQuantized q = quantized(torch::randn({4, 3}), 0, zero);
    CHECK(torch::allclose(function(q), q.dequantized()));
  };

  check(1);
  check(1);
  CHECK(compiled == 1);
  check(2);
  CHECK(compiled == 2);
}

TEST_CASE("AD-142 test_nested_subclasses_complicated_inps_mixed: wrappers of several kinds",
          "[conformance][P]") {
  using Mixed = Two<ScaledQuantized>;
  const auto function = [](const Mixed& x, const Nested& y) {
    const torch::Tensor product = x.a.dequantized().matmul(x.b.dequantized());
    return std::tuple(product * sine(y.a), Mixed{x.b, quantized(product, 0, x.a.zero)}, y.b.a);
  };

  check_values(function, [](bool requires_grad) {
    ScaledQuantized a = quantized(doubles({4, 4}), 0, 1);
    ScaledQuantized b = quantized(doubles({4, 4}), 1, 0);
    a.scale.requires_grad_(requires_grad);
    b.scale.requires_grad_(requires_grad);
    const auto second = nested(requires_grad);
    Tensors all = second.leaves;
    all.push_back(a.scale);
    all.push_back(b.scale);
    return Example<Mixed, Nested>{all, {Mixed{a, b}, std::get<0>(second.arguments)}};
  });
}

TEST_CASE("AD-148 writes are counted on the tensors inside", "[conformance][P]") {
  std::vector<std::uint32_t> written;
  const TypedFunction function(
      [](const torch::Tensor& a, const Pair& b) {
        b.b.mul_(2);
        return a * b;
      },
      [&](TensorFunction dense, const auto&) {
        return TensorFunction([&written, dense = std::move(dense)](const Tensors& in) {
          for (const auto& write : autograd_dispatch::trace_joint(dense, in).plan.writes) {
            written.push_back(write.input);
          }
          return interpreted(dense)(in);
        });
      });
  const auto [a, b] = tensor_and_pair(true).arguments;

  (void)function(a, b);

  CHECK(written == std::vector<std::uint32_t>{2});
}

TEST_CASE("AD-13 test_output_dict: dictionaries in and out", "[conformance][C]") {
  using Dictionary = std::map<std::string, torch::Tensor>;
  const auto function = [](const Dictionary& in) {
    return Dictionary{{"a", in.at("x")}, {"b", in.at("x") * in.at("y")}};
  };

  check_values(function, [](bool requires_grad) {
    const Tensors made = leaves({{3}, {3}})(requires_grad).leaves;
    return Example<Dictionary>{made, {Dictionary{{"x", made[0]}, {"y", made[1]}}}};
  });
}

TEST_CASE("AD-12 test_non_tensor_and_none_inputs: numbers, and what is not there",
          "[conformance][C]") {
  using Maybe = std::optional<torch::Tensor>;
  const auto function = [](const torch::Tensor& a, int b, const Maybe& c) {
    return c ? a * b + *c : a * b;
  };

  for (const bool there : {true, false}) {
    check_values(function, [&](bool requires_grad) {
      const Tensors made = leaves({{3}, {3}})(requires_grad).leaves;
      return Example<torch::Tensor, int, Maybe>{made,
                                                {made[0], 2, there ? Maybe(made[1]) : Maybe()}};
    });
  }
}

TEST_CASE("a result whose length depends on the shape", "[conformance][C]") {
  const auto compiled = generated_values([](const torch::Tensor& x) {
    std::vector<Pair> rows;
    for (const torch::Tensor& row : x.unbind(0)) {
      rows.push_back({row + 1, row * 2});
    }
    return rows;
  });
  const torch::Tensor two = torch::randn({2, 3});
  const torch::Tensor three = torch::randn({3, 3});

  CHECK(compiled(two).size() == 2);
  CHECK(compiled(three).size() == 3);
  CHECK(compiled(two).size() == 2);
  CHECK(torch::equal(compiled(three)[2].a, three[2] + 1));
}

}  // namespace
}  // namespace kiln::testing
