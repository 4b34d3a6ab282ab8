// What is said of sizes and integers that a function cannot take: each violation of what is
// declared, and each relation between sizes, has a message of its own.

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/base/error.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using testing::contains;
using Sizes = std::vector<std::vector<std::int64_t>>;

// The only version is for the first call, so that a second one says why it needs another.
CompileOptions for_one_version(std::vector<exporter::DynamicDim> dims) {
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.max_versions = 1;
  options.input_names = {"x", "y"};
  options.dynamic_dims = std::move(dims);
  options.forward_compiler = autograd_dispatch::interpret;
  return options;
}

Tensors ones(const Sizes& sizes) {
  Tensors made;
  for (const std::vector<std::int64_t>& size : sizes) {
    made.push_back(torch::ones(size));
  }
  return made;
}

Tensors doubled(const Tensors& in) {
  Tensors out;
  for (const torch::Tensor& tensor : in) {
    out.push_back(tensor * 2);
  }
  return out;
}

std::string message_of(const Function& function, const Tensors& inputs, ErrorCode code) {
  try {
    static_cast<void>(function(inputs));
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "no error";
}

exporter::DynamicDim dim(const std::string& input,
                         std::int64_t at,
                         const std::string& name,
                         std::int64_t min = 1,
                         std::int64_t max = 100) {
  return {.input = input, .dim = at, .name = name, .min = min, .max = max};
}

struct Declaration {
  std::vector<exporter::DynamicDim> dims;
  Sizes sizes;  // Of the first call.
  std::string message;
};

TEST_CASE("a declaration that the first call contradicts is refused, and says why",
          "[jit][size_messages]") {
  const Declaration all[] = {
      {{dim("z", 0, "n")}, {{4, 3}, {4}}, "'n': no input is called 'z'"},
      {{{.input = std::size_t{2}, .dim = 0, .name = "n"}},
       {{4, 3}, {4}},
       "'n': there is no input 2, only 2"},
      {{dim("x", 2, "n")}, {{4, 3}, {4}}, "'n': input 0 has 2 dimensions, no 2"},
      {{dim("y", -2, "n")}, {{4, 3}, {4}}, "'n': input 1 has 1 dimensions, no -2"},
      {{dim("x", 0, "")}, {{4, 3}, {4}}, "'': column 1 of \"\": expected"},
      {{dim("x", 0, "n +")}, {{4, 3}, {4}}, "'n +': column 4 of \"n +\": expected"},
      {{dim("x", 0, "n + m")}, {{4, 3}, {4}}, "'n + m': a size is a symbol, or a line in one"},
      {{dim("x", 0, "n*n")}, {{4, 3}, {4}}, "'n*n': a size is a symbol, or a line in one"},
      {{dim("x", 0, "4")}, {{4, 3}, {4}}, "'4': a size is a symbol, or a line in one"},
      {{dim("x", 0, "n", 5)},
       {{4, 3}, {4}},
       "'n': dimension 0 of input 0 is 4 in the example, but 'n' must be in 5 … 100"},
      {{dim("x", 0, "n", 1, 3)},
       {{4, 3}, {4}},
       "'n': dimension 0 of input 0 is 4 in the example, but 'n' must be in 1 … 3"},
      {{dim("x", 0, "n", 9, 2)}, {{4, 3}, {4}}, "'n': its least value is 9, its largest 2"},
      {{dim("x", 0, "n"), dim("y", 0, "n")},
       {{4, 3}, {5}},
       "'n': dimension 0 of input 1 is 5 in the example, but 'n' is 4"},
      {{dim("x", 0, "2*n")},
       {{5, 3}, {4}},
       "'2*n': dimension 0 of input 0 is 5 in the example, and no 'n' makes it that"},
      {{dim("x", 0, "n"), dim("y", 0, "2*n")},
       {{4, 3}, {6}},
       "'2*n': dimension 0 of input 1 is 6 in the example, but 'n' is 4"},
      {{dim("x", 0, "n"), dim("y", 0, "n + 1")},
       {{4, 3}, {4}},
       "'n + 1': dimension 0 of input 1 is 4 in the example, but 'n' is 4"},
      {{dim("x", 0, "n"), dim("x", -2, "m")},
       {{4, 3}, {4}},
       "'m': dimension 0 of input 0 is 'n' already"},
  };
  for (const Declaration& declaration : all) {
    const Function function = compile(doubled, for_one_version(declaration.dims));
    CHECK_THAT(message_of(function, ones(declaration.sizes), ErrorCode::kInvalidArgument),
               contains("the dynamic dimension " + declaration.message));
  }
}

TEST_CASE("an input without a tensor has no dimension that varies", "[jit][size_messages]") {
  const Function function = compile([](const Tensors& in) { return Tensors{in[0] * 2}; },
                                    for_one_version({dim("x", 0, "n"), dim("y", 0, "n")}));

  CHECK_THAT(message_of(function, {torch::ones({4}), {}}, ErrorCode::kInvalidArgument),
             contains("'n': input 1 is undefined"));
}

TEST_CASE("a declaration is for tensors, not for integers", "[jit][size_messages]") {
  const auto message = [](const exporter::DynamicDim& declared) {
    const auto scaled = [](const torch::Tensor& x, std::int64_t n) { return x * n; };
    const auto fast = compile(scaled, for_one_version({declared}));
    try {
      static_cast<void>(fast(torch::ones({4}), 3));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };

  CHECK_THAT(message({.input = std::size_t{1}, .dim = 1, .name = "n"}),
             contains("'n': there is no input 1, only 1"));
  CHECK_THAT(message(dim("y", 1, "n")), contains("'n': no input is called 'y'"));
}

struct LaterCall {
  std::vector<exporter::DynamicDim> dims;
  Sizes first;
  Tensors second;
  std::string message;
};

TEST_CASE("a later call that violates a declaration or a relation says which",
          "[jit][size_messages]") {
  const std::vector<exporter::DynamicDim> n = {dim("x", 0, "n", 2, 100)};
  const std::vector<exporter::DynamicDim> both = {dim("x", 0, "n"), dim("y", 0, "n")};
  const std::vector<exporter::DynamicDim> twice = {dim("x", 0, "n"), dim("y", 0, "2*n")};
  const std::vector<exporter::DynamicDim> one_more = {dim("x", 0, "n"), dim("y", 0, "n + 1")};
  const LaterCall all[] = {
      {n,
       {{4, 3}, {4}},
       ones({{101, 3}, {4}}),
       "input 0 'x', dimension 0: 'n' is 101, compiled for 2 … 100"},
      {n,
       {{4, 3}, {4}},
       ones({{1, 3}, {4}}),
       "input 0 'x', dimension 0: 'n' is 1, compiled for 2 … 100"},
      {n, {{4, 3}, {4}}, ones({{9, 5}, {4}}), "input 0 'x', dimension 1: 5, compiled for 3"},
      {n, {{4, 3}, {4}}, ones({{9, 3}, {7}}), "input 1 'y', dimension 0: 7, compiled for 4"},
      {both,
       {{4, 3}, {4}},
       ones({{9, 3}, {8}}),
       "input 1 'y', dimension 0: 8, compiled for n, here 9"},
      {twice,
       {{4, 3}, {8}},
       ones({{9, 3}, {9}}),
       "input 1 'y', dimension 0: 9, compiled for 2*n, here 18"},
      {one_more,
       {{4, 3}, {5}},
       ones({{9, 3}, {9}}),
       "input 1 'y', dimension 0: 9, compiled for n + 1, here 10"},
      {{dim("x", 0, "2*n")},
       {{4, 3}, {4}},
       ones({{7, 3}, {4}}),
       "input 0 'x', dimension 0: 7, must be 2*n"},
      {{dim("x", 0, "4*n + 1")},
       {{5, 3}, {4}},
       ones({{7, 3}, {4}}),
       "input 0 'x', dimension 0: 7, must be 4*n + 1"},
      {{dim("x", 0, "n"), dim("x", 1, "n")},
       {{4, 4}, {4}},
       ones({{6, 5}, {4}}),
       "input 0 'x', dimension 1: 5, compiled for n, here 6"},
      {n,
       {{4, 3}, {4}},
       {torch::ones({3, 9}).t(), torch::ones({4})},
       "input 0 'x', stride of dimension 1: 9, must be 1"},
      {n,
       {{4, 3}, {4}},
       {torch::ones({9, 6}).slice(1, 0, 3), torch::ones({4})},
       "input 0 'x', stride of dimension 0: 6, must be 3"},
      {n, {{4, 3}, {4}}, ones({{9, 3, 1}, {4}}), "input 0 'x': Float [9, 3, 1]"},
      {n,
       {{4, 3}, {4}},
       {torch::ones({9, 3}, torch::kDouble), torch::ones({4})},
       "input 0 'x': Double [9, 3]"},
      {n,
       {{4, 3}, {4}},
       {torch::ones({9, 3}, torch::requires_grad()), torch::ones({4})},
       "input 0 'x': Float [9, 3] strides [3, 1] on cpu, requires grad"},
      {n,
       {{4, 3}, {4}},
       {torch::ones({9, 3}), {}},
       "input 1 'y': undefined, compiled for Float [4]"},
      {n, {{4, 3}, {4}}, ones({{9, 3}}), "the call has 1 tensors, the version before 2"},
  };
  for (const LaterCall& call : all) {
    const Function function =
        compile([](const Tensors& in) { return Tensors{in[0] * 2}; }, for_one_version(call.dims));
    static_cast<void>(function(ones(call.first)));
    CHECK_THAT(message_of(function, call.second, ErrorCode::kUnsupported),
               contains("(max_versions = 1): " + call.message));
  }
}

// Of a function of a tensor and an integer, the reason of its last version.
template <class F>
std::string reason_of(const F& function, const std::vector<std::int64_t>& integers) {
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.forward_compiler = autograd_dispatch::interpret;
  const auto fast = compile(function, options);
  for (const std::int64_t n : integers) {
    static_cast<void>(fast(torch::ones({7}), n));
  }
  return fast.report().details.back().reason;
}

TEST_CASE("an integer that is compiled for again says why", "[jit][size_messages]") {
  const auto scaled = [](const torch::Tensor& x, std::int64_t n) { return x * n; };
  const auto branching = [](const torch::Tensor& x, std::int64_t n) {
    return n < 30 ? x * n : x - n;
  };

  CHECK(reason_of(scaled, {5, 6, 6}) == "integer 0: 6, compiled for 5");
  CHECK(reason_of(branching, {5, 20, 40}) == "integer 0: 's0' is 40, compiled for 5 … 20");
  CHECK_THAT(reason_of(scaled, {5, -1}), contains("'tensor -1 ' now, 'tensor integer ' before"));
  CHECK_THAT(reason_of(scaled, {5, 1LL << 31}),
             contains("'tensor 2147483648 ' now, 'tensor integer ' before"));
}

TEST_CASE("what does not vary though it was declared is reported, and why",
          "[jit][size_messages]") {
  const auto specialisations = [](const TensorFunction& function) {
    const Function fast = compile(function, for_one_version({dim("x", 0, "n")}));
    static_cast<void>(fast(ones({{4, 3}})));
    std::string all;
    const CompileReport report = fast.report();
    for (const std::string& line : report.details.at(0).specialisations) {
      all += line + "\n";
    }
    return all;
  };

  CHECK_THAT(specialisations([](const Tensors& in) {
               return Tensors{in[0].size(0) < 30 ? in[0].relu() : in[0].sigmoid()};
             }),
             contains("'n' in [1, 29], not [1, 100]: operator 0, aten.relu"));
  CHECK_THAT(specialisations([](const Tensors& in) {
               return Tensors{in[0].size(0) % 2 == 0 ? in[0].relu() : in[0].sigmoid()};
             }),
             contains("'n' is 4: operator 0, aten."));
}

}  // namespace
}  // namespace kiln
