// Results that depend on sizes in other ways than by their own: views of what a function takes or
// returns, and numbers.

#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/compare_with_eager.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using testing::check_like_eager;

Tensors leaf(std::int64_t rows) {
  return {torch::randn({rows, 4}, torch::requires_grad())};
}

// A leaf cannot be a base of views that require grad.
testing::Inputs product(std::int64_t rows) {
  const Tensors leaves = leaf(rows);
  return {leaves, {leaves[0] * 1}};
}

TEST_CASE("DS-38 AD-74 test_dynamic_output_aliases_input_view_meta_replay: as_strided for one view",
          "[jit][dynamic_results]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].view({in[0].size(0) * 2, 2}), in[0].view(-1)};
  };
  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  for (const std::int64_t rows : {3, 4, 9, 20, 2}) {
    check_like_eager(function, fast, [&] { return product(rows); });
  }
  CHECK(fast.report().versions == 2);
  CHECK(fast.report().details.back().symbols.size() == 1);

  const torch::Tensor x = leaf(7)[0] * 1;
  const Tensors views = fast({x});
  CHECK(views[0].grad_fn()->name() == "AsStridedBackward0");
  CHECK(views[1].grad_fn()->name() == "ViewBackward0");
  CHECK(views[0]._base().is_same(x));
}

TEST_CASE("autograd knows a view of an argument that is a view itself", "[jit][dynamic_results]") {
  const auto function = [](const Tensors& in) {
    const std::int64_t rows = in[0].size(0);
    return Tensors{in[0].narrow(0, 1, rows - 1), in[0].t().narrow(1, 0, rows - 1)};
  };
  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  const auto first = [](std::int64_t rows) -> testing::Inputs {
    const Tensors leaves = leaf(rows + 3);
    return {leaves, {(leaves[0] * 1).narrow(0, 0, rows)}};
  };
  for (const std::int64_t rows : {3, 4, 9, 20, 2}) {
    CAPTURE(rows);
    check_like_eager(function, fast, [&] { return first(rows); });
    for (const std::size_t i : {0, 1}) {
      const torch::Tensor x = first(rows).arguments[0];
      int hooked = 0;
      x.register_hook([&](const torch::Tensor&) { ++hooked; });
      const torch::Tensor found = torch::autograd::grad({fast({x})[i].sum()}, {x})[0];
      CHECK(torch::equal(found, torch::autograd::grad({function({x})[i].sum()}, {x})[0]));
      CHECK(hooked == 2);
    }
  }
  CHECK(fast.report().versions == 2);
}

TEST_CASE("views of results and of arguments vary", "[jit][dynamic_results]") {
  const auto function = [](const Tensors& in) {
    const std::int64_t rows = in[0].size(0);
    const torch::Tensor y = in[0] * 2;
    return Tensors{in[0].t(),
                   y,
                   y.narrow(0, 0, 1),
                   y.narrow(0, 1, rows - 1).t(),
                   in[0].narrow(0, 1, rows - 1),
                   y.view(-1).narrow(0, rows, 2 * rows).view({2, rows}),
                   in[0]};
  };
  const auto check = [&](const Function& fast) {
    for (const std::int64_t rows : {4, 6, 8, 20, 2, 100}) {
      check_like_eager(function, fast, [&] { return product(rows); });
    }
  };
  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  check(fast);
  CHECK(fast.report().versions == 2);

  CompileOptions declared = uncached(PastMaxVersions::kError);
  declared.dynamic_dims = {{.input = std::size_t{0}, .dim = 0, .name = "rows", .min = 2}};
  const Function once = compile(function, declared);
  check(once);
  CHECK(once.report().versions == 1);
}

TEST_CASE("which of several views is returned may depend on an integer", "[jit][dynamic_results]") {
  const auto rows = [](const torch::Tensor& x, std::int64_t n) {
    return x.unbind(0).at(static_cast<std::size_t>(n));
  };
  const auto parts = [](const torch::Tensor& x, std::int64_t n) {
    return x.split(2).at(static_cast<std::size_t>(n)).t();
  };
  const auto check = [](const auto& function) {
    const auto fast = compile(function, uncached(PastMaxVersions::kError));
    const torch::Tensor x = torch::randn({60, 3});
    for (const std::int64_t n : {0, 20, 25, 7, 29, 1}) {
      CAPTURE(n);
      const torch::Tensor found = fast(x, n), expected = function(x, n);
      CHECK(torch::equal(found, expected));
      CHECK(found.strides() == expected.strides());
      CHECK(found.storage_offset() == expected.storage_offset());
      CHECK(found.is_alias_of(x));
    }
    CHECK(fast.report().versions == 2);
  };
  check(rows);
  check(parts);
}

TEST_CASE("views vary where nothing is differentiated", "[jit][dynamic_results]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor y = in[0].sin();
    return Tensors{y, y.narrow(0, 1, y.size(0) - 1), in[0].narrow(1, 1, 2)};
  };
  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  for (const std::int64_t rows : {3, 4, 9, 5000}) {
    const torch::Tensor x = torch::randn({rows, 4});
    const Tensors found = fast({x}), expected = function({x});
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].strides() == expected[i].strides());
      CHECK(found[i].storage_offset() == expected[i].storage_offset());
      CHECK(torch::allclose(found[i], expected[i], 1e-4, 1e-5));
    }
    CHECK(found[1].is_alias_of(found[0]));
    CHECK(found[2].is_alias_of(x));
  }
  CHECK(fast.report().versions == 2);
  CHECK(fast.report().compiles == 2);
}

TEST_CASE("views vary in a function from the cache", "[jit][dynamic_results]") {
  const TemporaryDirectory directory;
  CompileOptions options;
  options.cache_directory = directory.path();
  options.identity = "halves";
  const auto function = [](const Tensors& in) {
    const torch::Tensor y = in[0] * 3;
    return Tensors{y, y.narrow(0, 1, y.size(0) - 1)};
  };
  const Function cold = compile(function, options);
  for (const std::int64_t rows : {4, 6}) {
    check_like_eager(function, cold, [&] { return product(rows); });
  }

  const Function warm = compile(function, options);
  for (const std::int64_t rows : {9, 30}) {
    check_like_eager(function, warm, [&] { return product(rows); });
  }
  CHECK(warm.report().versions == 1);
  CHECK(warm.report().traces == 0);
}

TEST_CASE("views are made again where they differ only beyond the range",
          "[jit][dynamic_results]") {
  const auto function = [](const Tensors& in) {
    return in[0].size(0) < 30 ? Tensors{in[0].sin(), in[0].t()}
                              : Tensors{in[0].cos(), in[0].transpose(0, 1)};
  };
  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  for (const std::int64_t rows : {3, 4, 9, 29, 30}) {
    check_like_eager(function, fast, [&] { return product(rows); });
    CHECK(fast({leaf(rows)[0] * 1})[1].grad_fn()->name() ==
          (rows < 30 ? "TBackward0" : "TransposeBackward0"));
  }
}

TEST_CASE("views as another type are a version for each size", "[jit][dynamic_results]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor y = in[0] * 2;
    return Tensors{y, torch::view_as_complex(y.view({in[0].size(0), 2, 2}))};
  };
  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  for (const std::int64_t rows : {4, 6, 8}) {
    const torch::Tensor x = torch::randn({rows, 4});
    const Tensors found = fast({x});
    CHECK(torch::equal(found[1], function({x})[1]));
    CHECK(found[1].is_alias_of(found[0]));
  }
  CHECK(fast.report().versions == 3);
}

TEST_CASE("numbers among the results follow from sizes and integers", "[jit][dynamic_results]") {
  const auto function = [](const torch::Tensor& x, std::int64_t n) {
    return std::tuple(x + n,
                      x.size(0),
                      std::map<std::string, std::int64_t>{{"twice", 2 * n}, {"five", 5}},
                      std::vector<std::int64_t>{x.numel(), n - x.size(0) + 100});
  };
  const auto fast = compile(function, uncached(PastMaxVersions::kError));
  for (const std::int64_t size : {3, 4, 5, 7, 90}) {
    const torch::Tensor x = torch::randn({size, 2});
    const auto found = fast(x, 3 * size - 1), expected = function(x, 3 * size - 1);
    CHECK(torch::allclose(std::get<0>(found), std::get<0>(expected)));
    CHECK(std::get<1>(found) == std::get<1>(expected));
    CHECK(std::get<2>(found) == std::get<2>(expected));
    CHECK(std::get<3>(found) == std::get<3>(expected));
  }
  CHECK(fast.report().versions == 2);
}

TEST_CASE("a number among the results follows from a size that is declared",
          "[jit][dynamic_results]") {
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.automatic_dynamic = false;
  options.dynamic_dims = {{.input = std::size_t{0}, .dim = 0, .name = "rows"}};
  const auto function = [](const torch::Tensor& x, std::int64_t n) {
    return std::pair(x + n, 2 * x.size(0) + n);
  };
  const auto fast = compile(function, options);
  for (const auto& [size, n] : {std::pair(3, 1), std::pair(40, 1), std::pair(7, 2)}) {
    const torch::Tensor x = torch::randn({size});
    const auto found = fast(x, n), expected = function(x, n);
    CHECK(torch::allclose(found.first, expected.first));
    CHECK(found.second == expected.second);
  }
  CHECK(fast.report().versions == 2);  // One for each integer.
}

TEST_CASE("a number that is negative is compiled for its value", "[jit][dynamic_results]") {
  const auto function = [](const torch::Tensor& x) { return std::pair(x + 1, 5 - x.size(0)); };
  const auto fast = compile(function, uncached(PastMaxVersions::kEager));
  for (const std::int64_t size : {3, 4, 5, 7, 8, 2, 7}) {
    CHECK(fast(torch::ones({size})).second == 5 - size);
  }
}

TEST_CASE("a number may be negative at a corner of two ranges", "[jit][dynamic_results]") {
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.dynamic_dims = {{.input = std::size_t{0}, .dim = 0, .name = "n", .min = 2, .max = 115},
                          {.input = std::size_t{1}, .dim = 0, .name = "m", .min = 2, .max = 115}};
  const auto function = [](const torch::Tensor& x, const torch::Tensor& y) {
    return std::pair(x.sum() + y.sum(), x.size(0) - y.size(0) + 100);
  };
  const auto fast = compile(function, options);
  for (const auto& [rows, others] : {std::pair(50, 40), std::pair(2, 115), std::pair(9, 7)}) {
    CAPTURE(rows, others);
    const auto found = fast(torch::ones({rows}), torch::ones({others}));
    CHECK(found.first.item<float>() == static_cast<float>(rows + others));
    CHECK(found.second == rows - others + 100);
  }
  CHECK(fast.report().versions == 1);
}

TEST_CASE("a number in a structure of one's own varies", "[jit][dynamic_results]") {
  const ValueFunction function = [](const Values& in) -> c10::IValue {
    const torch::Tensor x = in[0].toTensor();
    return c10::ivalue::Tuple::create({x * 2, x.size(0) + 1});
  };
  const StructuredFunction fast = compile(function, uncached(PastMaxVersions::kError));
  for (const std::int64_t size : {3, 4, 5, 7}) {
    const c10::IValue found = fast({torch::ones({size})});
    CHECK(found.toTupleRef().elements()[1].toInt() == size + 1);
  }
  CHECK(fast.report().versions == 2);
}

TEST_CASE("DS-35 test_dynamic_shape_output_not_in_bw_graph: a size has no tangent",
          "[jit][dynamic_results]") {
  const auto function = [](const torch::Tensor& x) { return std::pair(x + 1, x.size(0)); };
  std::vector<std::size_t> inputs_of_backward, tangents;
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.forward_compiler = autograd_dispatch::interpret;
  options.partition = [&](const ir::Graph& joint) {
    partitioner::Partition halves = partitioner::min_cut_partition(joint);
    inputs_of_backward.push_back(halves.backward.inputs().size());
    tangents.push_back(static_cast<std::size_t>(
        std::ranges::count(halves.backward.inputs(), ir::InputKind::kTangent, &ir::Input::kind)));
    return std::pair(std::move(halves.forward), std::move(halves.backward));
  };
  const auto fast = compile(function, options);
  for (const std::int64_t size : {3, 4, 5, 7}) {
    const torch::Tensor x = torch::ones({size}, torch::requires_grad());
    const auto [sum, found] = fast(x);
    sum.square().sum().backward();
    CHECK(found == size);
    CHECK(torch::equal(x.grad(), torch::full({size}, 4.0)));
  }
  // The size of the tangent, and the tangent.
  CHECK(tangents == std::vector<std::size_t>{1, 1});
  CHECK(inputs_of_backward == std::vector<std::size_t>{1, 2});
  CHECK(fast.report().versions == 2);
}

}  // namespace
}  // namespace kiln
