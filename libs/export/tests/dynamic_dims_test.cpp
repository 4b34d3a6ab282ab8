#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/export/export.hpp"
#include "kiln/testing/catch2.hpp"
#include "programs.hpp"

namespace kiln::exporter {
namespace {

using testing::contains;

constexpr std::size_t kFirst = 0;

ExportOptions rows(std::int64_t min, std::int64_t max) {
  return {.dynamic_dims = {{.input = kFirst, .dim = 0, .name = "n", .min = min, .max = max}}};
}

// What the export of a program of one tensor [n, 4] says if it cannot vary; empty if it does, and
// then it was run at other sizes.
std::string refusal(const TensorFunction& function, std::int64_t min = 2, std::int64_t max = 600) {
  try {
    const ExportedProgram program =
        export_program(function, {torch::randn({6, 4})}, rows(min, max));
    for (const std::int64_t size : {min, min + 1, std::int64_t{37}, std::int64_t{100}, max}) {
      const Tensors inputs = {torch::randn({size, 4})};
      const Tensors expected = function(inputs);
      const Tensors results = interpret(program, inputs);
      REQUIRE(results.size() == expected.size());
      for (std::size_t i = 0; i < results.size(); ++i) {
        REQUIRE(results[i].sizes() == expected[i].sizes());
        REQUIRE(torch::allclose(results[i], expected[i], 1e-4, 1e-5));
      }
    }
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST_CASE("EX-15 a program is exported for every size of a dimension", "[export][dynamic]") {
  CHECK(refusal([](const Tensors& in) { return Tensors{in[0].softmax(0) * 2, in[0].sum()}; }, 1)
            .empty());
  CHECK(refusal([](const Tensors& in) { return Tensors{in[0].t().matmul(in[0])}; }, 1).empty());
  CHECK(refusal([](const Tensors& in) {
          return Tensors{torch::cat({in[0], in[0].flip(0)}).view({-1, 2, 4}).sum(1)};
        }).empty());
  CHECK(refusal([](const Tensors& in) { return Tensors{in[0].reshape({-1}).slice(0, 3)}; }, 1)
            .empty());
}

TEST_CASE("a dimension that is twice a size needs no end", "[export][dynamic]") {
  const auto pairs = [](const Tensors& in) { return Tensors{in[0].view({-1, 2}).sum(1) * in[1]}; };
  const ExportedProgram program =
      export_program(pairs,
                     {torch::randn({10}), torch::randn({5})},
                     {.dynamic_dims = {{.input = kFirst, .dim = 0, .name = "2*n"},
                                       {.input = std::size_t{1}, .dim = 0, .name = "n"}}});

  for (const std::int64_t n : {2, 5, 37}) {
    const Tensors inputs = {torch::randn({2 * n}), torch::randn({n})};
    CHECK(torch::allclose(interpret(program, inputs)[0], pairs(inputs)[0]));
  }
}

TEST_CASE("programs that fool a few samples are refused, or right", "[export][dynamic]") {
  const auto first = [](const torch::Tensor& x, std::int64_t count) {
    return Tensors{x.slice(0, 0, count)};
  };

  CHECK_THAT(refusal([&](const Tensors& in) {
               return first(in[0], std::min<std::int64_t>(in[0].size(0), 512));
             }),
             contains("n' in [2, 512], not [2, 600]"));
  CHECK_THAT(refusal([&](const Tensors& in) { return first(in[0], in[0].size(0) % 2); }),
             contains("no expression of the symbols gives"));
  CHECK_THAT(refusal([&](const Tensors& in) { return first(in[0], in[0].size(0) / 3); }),
             contains("no expression of the symbols gives"));
  CHECK_THAT(refusal([&](const Tensors& in) {
               return Tensors{in[0].size(0) < 10 ? in[0].relu() : in[0].sigmoid()};
             }),
             contains("'n' is 9, and where 'n' is 10)"));
}

TEST_CASE("a program that asks whether two sizes are equal is not exported for both",
          "[export][dynamic]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor a = in[0].sum(), b = in[1].sum();
    return Tensors{in[0].size(0) == in[1].size(0) ? a + b : a - b};
  };
  const auto refused = [&](std::int64_t n, std::int64_t m, std::int64_t low) {
    try {
      (void)export_program(
          function,
          {torch::randn({n, 4}), torch::randn({m})},
          {.dynamic_dims = {
               {.input = kFirst, .dim = 0, .name = "n", .min = 1, .max = 300},
               {.input = std::size_t{1}, .dim = 0, .name = "m", .min = low, .max = 200}}});
      return std::string("exported");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };

  // Whichever it does in the example, and whether or not the corner of both ranges shows it.
  for (const auto& [n, m, low] :
       {std::tuple(6, 9, 3), std::tuple(6, 9, 1), std::tuple(40, 9, 8), std::tuple(9, 9, 3)}) {
    CAPTURE(n, m, low);
    CHECK_THAT(refused(n, m, low), contains("at other sizes"));
  }
}

TEST_CASE("a program that asks whether a size is that of another input is exported up to it",
          "[export][dynamic]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor a = in[0].sum(), b = in[1].sum();
    return Tensors{in[0].size(0) == in[1].size(0) ? a + b : a - b};
  };

  CHECK_THROWS_WITH(
      export_program(function, {torch::randn({6, 4}), torch::randn({29})}, rows(1, 300)),
      contains("'n' in [1, 28], not [1, 300]"));
}

TEST_CASE("sizes of two symbols are equal in ranges that a third does not meet",
          "[export][dynamic]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor a = in[0].sum(), b = in[1].sum();
    return Tensors{(in[0].size(0) == in[1].size(0) ? a + b : a - b) * in[2]};
  };
  const auto dim = [](std::size_t input, std::string name, std::int64_t min, std::int64_t max) {
    return DynamicDim{.input = input, .dim = 0, .name = std::move(name), .min = min, .max = max};
  };

  CHECK_THROWS_WITH(
      export_program(
          function,
          {torch::randn({6, 4}), torch::randn({9}), torch::randn({90})},
          {.dynamic_dims = {dim(0, "n", 2, 40), dim(1, "m", 3, 40), dim(2, "k", 64, 300)}}),
      contains("at other sizes"));
}

TEST_CASE("another path is named with its place in the source", "[export][dynamic]") {
  const auto branch = [](const Tensors& in) {
    if (in[0].size(0) < 10) {
      const capture::SourceScope here("model.cpp:41");
      return Tensors{in[0].relu()};
    }
    const capture::SourceScope here("model.cpp:44");
    return Tensors{in[0].sigmoid()};
  };
  const auto by_number = [](const Tensors& in) {
    const capture::SourceScope here("model.cpp:52");
    return Tensors{in[0] * (in[0].size(0) < 10 ? 0.5 : 0.25)};
  };
  const auto beyond = [](const Tensors& in) {
    const capture::SourceScope here("model.cpp:61");
    return Tensors{in[0].slice(0, 0, std::min<std::int64_t>(in[0].size(0), 512))};
  };

  CHECK_THAT(refusal(branch),
             contains("operator 0, aten.relu.default at model.cpp:41 is operator 0, "
                      "aten.sigmoid.default at model.cpp:44 at other sizes (where 'n' is 9, and "
                      "where 'n' is 10)"));
  CHECK_THAT(refusal(by_number), contains("aten.mul.Scalar at model.cpp:52: the argument"));
  CHECK_THAT(refusal(beyond), contains("at model.cpp:61"));
}

TEST_CASE("an export counts its traces", "[export][dynamic]") {
  int calls = 0;
  const auto function = [&](const Tensors& in) {
    ++calls;
    return Tensors{in[0].relu()};
  };

  const ExportedProgram fixed = export_program(function, {torch::randn({6, 4})});
  CHECK(fixed.traces == 1);
  CHECK(calls == 1);
  const ExportedProgram varying = export_program(function, {torch::randn({6, 4})}, rows(1, 600));
  CHECK(varying.traces == calls - 1);  // No end of the range had to be run.
  CHECK(varying.traces > 12);
}

double rows_of(const Tensors& in) {
  return static_cast<double>(in[0].size(0));
}

// What is multiplied by `number`, in double, at every size from 1 to 300.
void check_number(const std::function<double(double)>& number) {
  const auto function = [&](const Tensors& in) { return Tensors{in[0] * number(rows_of(in))}; };
  const ExportedProgram program =
      export_program(function, {torch::ones({6}, torch::kFloat64)}, rows(2, 300));
  for (std::int64_t size = 2; size <= 300; ++size) {
    const Tensors inputs = {torch::ones({size}, torch::kFloat64)};
    REQUIRE(torch::equal(interpret(program, inputs)[0], function(inputs)[0]));
  }
}

TEST_CASE("numbers that vary and are no integers are right to the last bit", "[export][dynamic]") {
  check_number([](double n) { return 1.0 / n; });
  check_number([](double n) { return n * 0.3; });
  check_number([](double n) { return n / 3.0; });
  check_number([](double n) { return 2.0 / (n - 1.0); });
  check_number([](double n) { return 1.0 / std::sqrt(n); });
  check_number([](double n) { return (n - 1.0) / n; });
  check_number([](double n) { return static_cast<double>(0.1F / static_cast<float>(n)); });
}

TEST_CASE("programs made to fool the fit of numbers are refused, or right", "[export][dynamic]") {
  const auto scaled = [](const std::function<double(double)>& number) {
    return refusal([=](const Tensors& in) { return Tensors{in[0] * number(rows_of(in))}; });
  };

  CHECK_THAT(scaled([](double n) { return 1.0 / std::min(n, 512.0); }), contains("aten.mul"));
  CHECK_THAT(scaled([](double n) { return n < 10 ? 0.5 : 0.25; }),
             contains("'n' is 9, and where 'n' is 10)"));
  CHECK_THAT(scaled([](double n) { return std::fmod(n, 2) == 0 ? 1 / n : 2 / n; }),
             contains("aten.mul"));
  CHECK_THAT(scaled([](double n) { return 1.0 / std::floor(n / 3); }), contains("aten.mul"));
  CHECK_THAT(scaled([](double n) { return std::log(n); }), contains("aten.mul"));
  CHECK_THAT(scaled([](double n) { return n * 0.1 * 3.0; }), contains("aten.mul"));
  CHECK_THAT(scaled([](double n) { return n == 600 ? 0.1 / n : 0.2 / n; }),
             contains("n' in [2, 599], not [2, 600]"));
}

ExportOptions automatic(std::size_t inputs, std::string last = "auto") {
  ExportOptions options;
  for (std::size_t i = 0; i < inputs; ++i) {
    options.dynamic_dims.push_back(
        {.input = i, .dim = 0, .name = i + 1 == inputs ? last : "auto", .max = 300});
  }
  return options;
}

TEST_CASE("automatic dimensions have symbols of their own, unless the program takes no others",
          "[export][dynamic]") {
  const auto sum = [](const Tensors& in) { return Tensors{in[0] + in[1], in[2].cumsum(0)}; };
  const Tensors example = {torch::randn({6, 4}), torch::randn({6, 4}), torch::randn({6})};

  const ExportedProgram program = export_program(sum, example, automatic(3));
  const ExportedProgram named =
      export_program([](const Tensors& in) { return Tensors{in[0] - in[1]}; },
                     {example[0], example[1]},
                     automatic(2, "batch"));

  CHECK(program.graph.symbols().size() == 2);
  CHECK(program.specialisations.empty());
  const Tensors inputs = {torch::randn({37, 4}), torch::randn({37, 4}), torch::randn({11})};
  CHECK(torch::equal(interpret(program, inputs)[0], sum(inputs)[0]));
  CHECK(torch::equal(interpret(program, inputs)[1], sum(inputs)[1]));
  CHECK_THROWS_WITH(
      interpret(program, {torch::randn({5, 4}), torch::randn({6, 4}), torch::randn({11})}),
      contains("dimension 0: 6, but"));
  CHECK(named.graph.symbols().size() == 1);
  CHECK(named.graph.symbols().contains("batch"));
}

TEST_CASE("an automatic dimension that cannot vary stays as it is", "[export][dynamic]") {
  const ExportedProgram fixed =
      export_program([](const Tensors& in) { return Tensors{in[0].view({6, 4}) * 2}; },
                     {torch::randn({6, 4})},
                     automatic(1));
  const ExportedProgram one = export_program(
      [](const Tensors& in) { return Tensors{in[0] * 2}; }, {torch::randn({1, 4})}, automatic(1));

  CHECK(fixed.graph.symbols().empty());
  CHECK(fixed.graph.hints().empty());
  CHECK_NOTHROW(interpret(fixed, {torch::randn({6, 4})}));
  REQUIRE(fixed.specialisations.size() == 1);
  CHECK_THAT(fixed.specialisations[0], contains("'auto0' in [6, 6], not [1, 300]"));
  CHECK(one.graph.symbols().empty());
}

TEST_CASE("a path that gives the same at one row belongs to the range", "[export][dynamic]") {
  const auto same = [](const Tensors& in) {
    return Tensors{in[0].size(0) == 1 ? in[0].clone() : in[0].cumsum(0)};
  };
  const auto other = [](const Tensors& in) {
    return Tensors{in[0].size(0) == 1 ? in[0].neg() : in[0].cumsum(0)};
  };

  CHECK(refusal(same, 1).empty());
  CHECK_THAT(refusal(other, 1), contains("n' in [2, 600], not [1, 600]"));
}

TEST_CASE("EX-46 sizes of several inputs are related by their names", "[export][dynamic]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0] + in[1].slice(0, 1)}; };
  const Tensors example = {torch::randn({5}), torch::randn({6})};
  const ExportOptions options{
      .input_names = {"x", "y"},
      .dynamic_dims = {{.input = "x", .dim = 0, .name = "n", .min = 1, .max = 50},
                       {.input = "y", .dim = -1, .name = "n + 1"}}};

  const ExportedProgram program = export_program(function, example, options);

  CHECK(program.graph.symbols().at("n") == ir::Range{1, 50});
  CHECK(program.graph.hints() == ir::Bindings{{"n", 5}});
  for (const std::int64_t size : {1, 7, 50}) {
    const Tensors inputs = {torch::randn({size}), torch::randn({size + 1})};
    CHECK(torch::equal(interpret(program, inputs)[0], function(inputs)[0]));
  }
  CHECK_THROWS_WITH(interpret(program, {torch::randn({4}), torch::randn({4})}),
                    contains("input 1 'y', dimension 0: 4, but 'n + 1' is 5"));
  CHECK_THROWS_WITH(interpret(program, {torch::randn({51}), torch::randn({52})}),
                    contains("'n' is 51, must be 1 … 50"));
}

TEST_CASE("DS-24 test_derived_dim_basic: a wrong relation suggests the right one",
          "[export][dynamic]") {
  const auto message = [](const TensorFunction& function,
                          const std::vector<std::int64_t>& sizes,
                          const std::vector<std::string>& declared) {
    Tensors example;
    ExportOptions options{.input_names = {"x", "y", "z"}};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      example.push_back(torch::randn({2, sizes[i]}));
      options.dynamic_dims.push_back({.input = i, .dim = -1, .name = declared[i], .max = 60});
    }
    try {
      (void)export_program(function, example, options);
      return std::string("exported");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const auto shifted = [](const Tensors& in) {
    return Tensors{in[0] + in[1].narrow(1, 1, in[1].size(1) - 1)};
  };
  const auto every_second = [](const Tensors& in) {
    return Tensors{in[0] * in[2] + in[1].slice(1, 1, std::nullopt, 2)};
  };
  const auto unrelated = [](const Tensors& in) {
    return Tensors{in[0].view({2, 5}) + 1, in[1].sin()};
  };

  CHECK_THAT(message(shifted, {5, 6}, {"n", "m"}),
             contains("; declare dimension 1 of input 1 'y' as 'n + 1'"));
  CHECK_THAT(message(shifted, {5, 6}, {"n", "2*n"}),
             contains("dimension 1 of input 1 is 6 in the example, but 'n' is 5; declare dimension "
                      "1 of input 1 'y' as 'n + 1'"));
  CHECK_THAT(message(shifted, {2, 3}, {"n", "2*n - 1"}),
             contains("; declare dimension 1 of input 1 'y' as 'n + 1'"));
  CHECK(message(shifted, {5, 6}, {"n", "n + 1"}) == "exported");
  CHECK_THAT(message(every_second, {5, 11, 5}, {"n", "m", "n"}),
             contains("; declare dimension 1 of input 1 'y' as '2*n + 1'"));
  const std::string other = message(unrelated, {5, 6}, {"n", "m"});
  CHECK_THAT(other, contains("'n' is 5") || contains("'n' in [5, 5]"));
  CHECK_THAT(other, !contains("declare"));
}

TEST_CASE("ten sizes vary on their own", "[export][dynamic]") {
  Tensors inputs;
  std::vector<DynamicDim> dims;
  for (std::size_t i = 0; i < 10; ++i) {
    inputs.push_back(torch::randn({5}));
    dims.push_back({.input = i, .dim = 0, .name = std::string(1, static_cast<char>('a' + i))});
  }

  const ExportedProgram program = export_program(
      [](const Tensors& in) {
        Tensors sums;
        for (const torch::Tensor& each : in) {
          sums.push_back(each.sum());
        }
        return Tensors{torch::stack(sums).sum()};
      },
      inputs,
      {.dynamic_dims = dims});

  CHECK(program.specialisations.empty());
  CHECK(program.graph.symbols().size() == inputs.size());
}

TEST_CASE("strides of a view may have many factors", "[export][dynamic]") {
  std::vector<DynamicDim> dims;
  for (std::int64_t d = 0; d < 6; ++d) {
    const std::string name(1, static_cast<char>('a' + d));
    dims.push_back({.input = kFirst, .dim = d, .name = name, .min = 2, .max = 11});
  }

  const ExportedProgram program =
      export_program([](const Tensors& in) { return Tensors{in[0].select(5, 0).sin()}; },
                     {torch::randn({2, 3, 4, 5, 2, 3})},
                     {.dynamic_dims = dims});

  CHECK(program.specialisations.empty());
  CHECK(program.graph.symbols().size() == dims.size());
}

TEST_CASE("an empty input is not traced at huge sizes", "[export][dynamic]") {
  std::int64_t largest = 0;
  const ExportedProgram program = export_program(
      [&](const Tensors& in) {
        largest = std::max(largest, in[0].size(1));
        return Tensors{in[1].mm(in[0])};
      },
      {torch::empty({0, 5}), torch::empty({3, 0})},
      {.dynamic_dims = {{.input = kFirst, .dim = 1, .name = "n", .min = 2}}});

  CHECK(program.specialisations.empty());
  CHECK(largest > 5);
  CHECK(largest <= std::int64_t{1} << 22);
}

TEST_CASE("dynamic dimensions that make no sense are refused", "[export][dynamic]") {
  const auto refused = [](const DynamicDim& dim) {
    try {
      (void)export_program([](const Tensors& in) { return Tensors{in[0].relu()}; },
                           {torch::randn({6, 4})},
                           {.input_names = {"x"}, .dynamic_dims = {dim}});
      return std::string("exported");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };

  CHECK_THAT(refused({.input = "y", .dim = 0, .name = "n"}), contains("no input is called 'y'"));
  CHECK_THAT(refused({.input = std::size_t{1}, .dim = 0, .name = "n"}),
             contains("there is no input 1"));
  CHECK_THAT(refused({.input = kFirst, .dim = 2, .name = "n"}), contains("has 2 dimensions"));
  CHECK_THAT(refused({.input = kFirst, .dim = 0, .name = "n*n"}), contains("a line in one"));
  CHECK_THAT(refused({.input = kFirst, .dim = 0, .name = "2*n + 1"}),
             contains("is 6 in the example"));
  CHECK_THAT(refused({.input = kFirst, .dim = 0, .name = "n", .min = 7}),
             contains("is 6 in the example"));
}

}  // namespace
}  // namespace kiln::exporter
