// Functions that are called with many sizes: how often they are traced and compiled, and that they
// do what eager does at sizes that no trace has seen.

#include <torch/torch.h>

#include <string>
#include <vector>

#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using testing::contains;

// Outputs with their strides, and arguments after the call.
void check_call(const TensorFunction& function, const Function& fast, const Tensors& inputs) {
  Tensors own, others;
  for (const torch::Tensor& input : inputs) {
    own.push_back(input.clone());
    others.push_back(input.clone());
  }
  const Tensors expected = function(own);
  const Tensors found = fast(others);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("output " << i << " of inputs " << inputs[0].sizes());
    REQUIRE(found[i].sizes() == expected[i].sizes());
    CHECK(found[i].strides() == expected[i].strides());
    CHECK(found[i].dtype() == expected[i].dtype());
    CHECK(found[i].requires_grad() == expected[i].requires_grad());
    CHECK(torch::allclose(found[i], expected[i], 1e-4, 1e-5));
  }
  for (std::size_t i = 0; i < own.size(); ++i) {
    CHECK(others[i].strides() == own[i].strides());
    CHECK(torch::allclose(others[i], own[i], 1e-4, 1e-5));
  }
}

// Calls with a tensor [n, 4] for each of `sizes`, and returns how many versions that made.
int versions_for(const TensorFunction& function,
                 const std::vector<std::int64_t>& sizes,
                 CompileOptions options = uncached(PastMaxVersions::kError)) {
  const Function fast = compile(function, std::move(options));
  for (const std::int64_t size : sizes) {
    check_call(function, fast, {torch::randn({size, 4})});
  }
  return fast.report().versions;
}

TEST_CASE("DS-28 a second size makes a symbol, and further ones neither trace nor compile",
          "[jit][dynamic]") {
  const auto function = [](const Tensors& in) {
    return Tensors{(in[0] * 2).softmax(0), in[0].t().matmul(in[0])};
  };
  CHECK(versions_for(function, {5, 6, 7, 9, 40}) == 2);
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.automatic_dynamic = false;
  CHECK(versions_for(function, {5, 6, 7, 9, 40}, options) == 5);
  options.dynamic = true;
  CHECK(versions_for(function, {5, 6, 7, 9, 40}, options) == 1);

  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  fast({torch::randn({5, 4})});
  CHECK(fast.report().traces == 1);
  fast({torch::randn({6, 4})});
  const CompileReport before = fast.report();
  CHECK(before.traces > 12);
  CHECK(before.compiles == 2);
  for (std::int64_t size = 0; size < 1000; size += 37) {
    check_call(function, fast, {torch::randn({size, 4})});
  }
  CHECK(fast.report().traces == before.traces);
  CHECK(fast.report().compiles == before.compiles);
}

TEST_CASE("DS-29 sizes of 0 and 1 belong to the range where their traces agree", "[jit][dynamic]") {
  CHECK(versions_for([](const Tensors& in) { return Tensors{in[0].sin() + 1}; }, {3, 2, 1, 0}) ==
        2);
  CHECK(versions_for(
            [](const Tensors& in) {
              return Tensors{in[0].size(0) == 1 ? in[0] + 5 : in[0].cumsum(0)};
            },
            {3, 2, 1, 7, 1, 0}) >= 3);
}

TEST_CASE("DS-30 a branch at a size is the end of a range", "[jit][dynamic]") {
  const auto below = [](const Tensors& in) {
    return Tensors{in[0].size(0) < 10 ? in[0].relu() : in[0].sigmoid()};
  };
  CHECK(versions_for(below, {20, 30, 9, 10, 11, 8, 100, 2}) == 3);
  CHECK(versions_for(below, {4, 5, 9, 10, 11, 2, 30, 200}) <= 4);
  const auto equal = [](const Tensors& in) {
    return Tensors{in[0].size(0) == 10 ? in[0].relu() : in[0].sigmoid()};
  };
  CHECK(versions_for(equal, {20, 30, 9, 10, 11, 8, 100}) <= 4);
  CHECK(versions_for(equal, {10, 9, 11, 10, 8, 12}) <= 4);
}

TEST_CASE("DS-32 a parameter that the size meets does not fix it", "[jit][dynamic]") {
  torch::nn::Linear linear(4, 3);
  const auto function = [&](const Tensors& in) { return Tensors{linear(in[0])}; };
  const torch::NoGradGuard no_grad;
  CHECK(versions_for(function, {1, 10, 11, 15, 15}) == 2);
}

TEST_CASE("DS-34 test_recompiles_true_false_flop: three versions for a flag and sizes",
          "[jit][dynamic]") {
  const auto function = [](bool twice, const torch::Tensor& y) { return twice ? y * 2 : y * y; };
  const auto versions_with = [&](bool automatic_dynamic) {
    CompileOptions options = uncached(PastMaxVersions::kError);
    options.automatic_dynamic = automatic_dynamic;
    const auto fast = compile(function, options);
    const std::vector<std::pair<bool, std::int64_t>> calls = {
        {true, 2}, {false, 2}, {true, 3}, {true, 4}, {true, 5}};
    for (const auto& [twice, size] : calls) {
      const torch::Tensor y = torch::randn({size});
      CHECK(torch::equal(fast(twice, y), function(twice, y)));
    }
    return fast.report().versions;
  };

  CHECK(versions_with(false) == 5);
  CHECK(versions_with(true) == 3);
}

TEST_CASE("a flag that alternates has two versions for each of its values", "[jit][dynamic]") {
  const auto function = [](const torch::Tensor& x, bool negative) { return negative ? -x : x * 2; };
  const auto fast = compile(function, uncached(PastMaxVersions::kError));
  for (const std::int64_t size : {3, 4, 5, 6}) {
    for (const bool negative : {true, false}) {
      const torch::Tensor x = torch::randn({size});
      CHECK(torch::equal(fast(x, negative), function(x, negative)));
    }
  }
  CHECK(fast.report().versions == 4);
}

TEST_CASE("functions that fool a few samples are right", "[jit][dynamic]") {
  const std::vector<std::int64_t> sizes = {6, 7, 8, 511, 512, 513, 600, 9, 13};
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.max_versions = 20;
  const auto rows = [](const torch::Tensor& x, std::int64_t count) {
    return Tensors{x.slice(0, 0, count) * 2};
  };
  CHECK(versions_for(
            [&](const Tensors& in) {
              return rows(in[0], std::min<std::int64_t>(in[0].size(0), 512));
            },
            sizes,
            options) <= 4);
  versions_for([&](const Tensors& in) { return rows(in[0], in[0].size(0) % 2); }, sizes, options);
  versions_for([&](const Tensors& in) { return rows(in[0], in[0].size(0) / 3); }, sizes, options);
  versions_for(
      [&](const Tensors& in) { return Tensors{in[0].size(0) % 2 == 0 ? in[0] * 3 : -in[0]}; },
      sizes,
      options);
  versions_for(
      [&](const Tensors& in) {
        return Tensors{in[0] * (1.0 / static_cast<double>(in[0].size(0)))};
      },
      sizes,
      options);
}

TEST_CASE("sizes that are equal in both calls are one symbol until they are not",
          "[jit][dynamic]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].size(0) == in[1].size(0) ? in[0].sum() + in[1].sum()
                                                  : in[0].sum() - in[1].sum()};
  };
  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  const auto call = [&](std::int64_t n, std::int64_t m) {
    check_call(function, fast, {torch::randn({n}), torch::randn({m})});
  };
  call(4, 4);
  call(6, 6);
  CHECK(fast.report().details.back().symbols.size() == 1);
  call(9, 9);
  CHECK(fast.report().versions == 2);
  call(9, 8);
  call(8, 9);
  call(7, 7);
  call(5, 12);
  call(12, 12);
}

TEST_CASE("dims that change apart from each other are symbols of their own", "[jit][dynamic]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].matmul(in[1]), torch::cat({in[0].flatten(), in[1].flatten()})};
  };
  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  const auto call = [&](std::int64_t m, std::int64_t k, std::int64_t n) {
    check_call(function, fast, {torch::randn({m, k}), torch::randn({k, n})});
  };
  call(2, 3, 4);
  call(5, 6, 7);
  REQUIRE(fast.report().details.back().symbols.size() == 3);
  CHECK_THAT(fast.report().details.back().symbols[1],
             contains("'s1' in 0 … 1024: input 0, dimension 1; input 1, dimension 0"));
  for (std::int64_t i = 0; i < 8; ++i) {
    call(3 * i % 7, i + 2, 11 - i);
  }
  CHECK(fast.report().versions == 2);
}

TEST_CASE("a function that asks whether two sizes are equal is right where they are",
          "[jit][dynamic]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor a = in[0].sum(), b = in[1].sum();
    return Tensors{in[0].size(0) == in[1].size(0) ? a + b : a - b};
  };
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.error_at_max_versions = false;
  const Function fast = compile(function, options);
  for (const auto& [n, m] : {std::pair(5, 9),
                             std::pair(6, 11),
                             std::pair(8, 8),
                             std::pair(8, 11),
                             std::pair(11, 11),
                             std::pair(7, 7),
                             std::pair(30, 31)}) {
    check_call(function, fast, {torch::randn({n, 4}), torch::randn({m})});
  }
}

TEST_CASE("declared dims are one version, within their bounds", "[jit][dynamic]") {
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.input_names = {"x", "y"};
  options.dynamic_dims = {{.input = "x", .dim = 0, .name = "n", .max = 100},
                          {.input = "y", .dim = 0, .name = "2*n", .max = 100}};
  const auto function = [](const Tensors& in) {
    return Tensors{torch::cat({in[0], in[0]}) + in[1]};
  };
  const Function fast = compile(function, options);
  for (const std::int64_t size : {8, 1, 100, 37}) {
    check_call(function, fast, {torch::randn({size, 3}), torch::randn({2 * size, 3})});
  }
  CHECK(fast.report().versions == 1);
  CHECK(fast.report().compiles == 1);
  CHECK_THAT(fast.report().details[0].symbols.at(0),
             contains("'n' in 1 … 100: input 0 'x', dimension 0; input 1 'y', dimension 0"));

  check_call(function, fast, {torch::randn({101, 3}), torch::randn({202, 3})});
  CHECK(fast.report().versions == 2);
  CHECK_THAT(fast.report().details[1].reason,
             contains("input 0 'x', dimension 0: 'n' is 101, compiled for 1 … 100"));

  options.dynamic_dims = {{.input = "z", .dim = 0, .name = "n"}};
  CHECK_THROWS_WITH(compile(function, options)({torch::ones({2, 3}), torch::ones({4, 3})}),
                    contains("no input is called 'z'"));
}

TEST_CASE("a size beyond the range is traced, not compiled", "[jit][dynamic]") {
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.dynamic_dims = {{.input = std::size_t{0}, .dim = 0, .name = "n"}};
  const auto function = [](const Tensors& in) { return Tensors{in[0].cumsum(0) + in[0].size(0)}; };
  const Function fast = compile(function, options);
  check_call(function, fast, {torch::randn({8, 4})});
  const int traces = fast.report().traces;

  check_call(function, fast, {torch::randn({5000, 4})});
  CHECK(fast.report().traces > traces);
  CHECK(fast.report().traces < traces + 12);
  check_call(function, fast, {torch::randn({19000, 4})});

  CHECK(fast.report().versions == 1);
  CHECK(fast.report().compiles == 1);
  CHECK_THAT(fast.report().details[0].symbols.at(0), contains("1 … 20000"));
}

TEST_CASE("a range is not made larger across a branch", "[jit][dynamic]") {
  const auto function = [](const Tensors& in) {
    const std::int64_t n = in[0].size(0);
    return Tensors{n > 2000 && n < 3000 ? in[0].relu() : in[0].sigmoid()};
  };
  CHECK(versions_for(function, {5, 6, 1500, 2500, 4000, 2001, 3000, 2999}) <= 5);
}

TEST_CASE("parts that are empty are not read", "[jit][dynamic]") {
  const auto function = [](const Tensors& in) {
    return Tensors{torch::cat({in[0], in[0].flip(0), torch::ones({3, 4})}) + 1,
                   torch::constant_pad_nd(in[0], {0, 0, 2, 1}, 7) * 2};
  };
  CHECK(versions_for(function, {6, 5, 0, 1, 30}) == 2);
}

TEST_CASE("larger images, and those that a convolution makes smaller", "[jit][dynamic]") {
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).stride(2)),
                            torch::nn::ReLU(),
                            torch::nn::AdaptiveAvgPool2d(1),
                            torch::nn::Flatten(),
                            torch::nn::Linear(4, 3));
  const auto function = [&](const Tensors& in) { return Tensors{net->forward(in[0])}; };
  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  const torch::NoGradGuard no_grad;
  for (const std::int64_t size : {8, 12, 9, 31, 3}) {
    check_call(function, fast, {torch::randn({size % 3 + 1, 1, size, size + 2})});
  }
}

TEST_CASE("arguments that are written have eager's contents at every size", "[jit][dynamic]") {
  CHECK(versions_for(
            [](const Tensors& in) {
              Tensors out = {in[0].sum()};
              torch::Tensor x = in[0];
              x.mul_(2).add_(x.size(0));
              return out;
            },
            {3, 5, 6, 1, 50}) == 2);
}

TEST_CASE("DS-40 a squeezed copy that is written", "[jit][dynamic]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor y = in[0].clone().squeeze(-1);
    y.add_(1.0);
    return Tensors{y * 2};
  };
  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  for (const std::int64_t size : {4, 5, 1, 9, 0}) {
    check_call(function, fast, {torch::randn({size, 1})});
  }
  CHECK(fast.report().versions <= 3);
}

TEST_CASE("a call past max_versions is not traced each time", "[jit][dynamic]") {
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.max_versions = 2;
  options.error_at_max_versions = false;
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].size(0) < 1500 ? in[0].relu() : in[0].sigmoid()};
  };
  const Function fast = compile(function, options);
  for (const std::int64_t size : {5, 6, 1600}) {
    check_call(function, fast, {torch::randn({size, 4})});
  }
  const int traces = fast.report().traces;
  for (const std::int64_t size : {1600, 1700, 5000}) {
    check_call(function, fast, {torch::randn({size, 4})});
  }
  CHECK(fast.report().traces == traces);
  CHECK(fast.report().versions == 2);
}

TEST_CASE("a module's buffers change once for each call", "[jit][dynamic]") {
  torch::nn::BatchNorm1d norm(4);
  const auto reference = std::dynamic_pointer_cast<torch::nn::BatchNorm1dImpl>(norm->clone());
  const auto fast = compile(norm, uncached(PastMaxVersions::kError));
  const torch::NoGradGuard no_grad;
  for (const std::int64_t size : {8, 6, 5, 40, 3}) {
    const torch::Tensor x = torch::randn({size, 4});
    CHECK(torch::allclose(fast(x), reference->forward(x), 1e-4, 1e-5));
    for (const auto& item : norm->named_buffers()) {
      CHECK(torch::allclose(item.value(), reference->named_buffers()[item.key()], 1e-4, 1e-5));
    }
  }
  CHECK(fast.report().versions == 2);
}

TEST_CASE("DS-33 test_aliasing_guard_failures: a version for each way to share memory and size",
          "[jit][dynamic]") {
  const auto function = [](const Tensors& in) {
    torch::Tensor x = in[0];
    x.add_(in[1]);
    return Tensors{in[2] + 1};
  };
  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  const auto call = [&](std::int64_t size, bool is_shared) {
    INFO("size " << size << ", shared: " << is_shared);
    const torch::Tensor x = torch::randn({size}), y = torch::randn({size}),
                        z = torch::randn({size});
    const torch::Tensor own = x.clone();
    CHECK(torch::equal(fast({x, is_shared ? x : y, z})[0], z + 1));
    CHECK(torch::equal(x, own + (is_shared ? own : y)));
    return fast.report().versions;
  };

  CHECK(call(3, false) == 1);
  CHECK(call(3, false) == 1);
  CHECK(call(3, true) == 2);
  CHECK(call(3, false) == 2);
  CHECK(call(4, false) == 3);  // For all sizes.
  CHECK(call(5, false) == 3);
  CHECK(call(4, true) == 4);
  CHECK(call(5, true) == 5);
  CHECK(call(6, false) == 5);
}

}  // namespace
}  // namespace kiln
