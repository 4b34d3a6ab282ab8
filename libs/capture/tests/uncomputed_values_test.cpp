#include <torch/torch.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/testing/catch2.hpp"
#include "same_graph.hpp"

namespace kiln::capture {
namespace {

using kiln::testing::contains;
using testing::convolved;
using testing::printed;
using testing::Product;
using torch::Tensor;

TEST_CASE("what was not computed has no elements to read", "[capture][without_values]") {
  const auto multiply = [](const Tensors& in) { return Tensors{in[0].mm(in[1])}; };
  const Tensors inputs{torch::ones({4, 6}), torch::ones({6, 5})};
  const Tensor result = record(multiply, inputs, {.without_values = true}).outputs[0];
  CHECK(result.sizes() == at::IntArrayRef({4, 5}));
  CHECK_THROWS_AS(result.sum(), c10::Error);
  const auto peek = [](const Tensors& in) {
    return Tensors{in[0].sin().data_ptr<float>()[0] > 0 ? in[0].exp() : in[0].log()};
  };
  CHECK_THROWS_AS(record(peek, inputs, {.without_values = true}), c10::Error);
  CHECK_NOTHROW(record(peek, inputs));
}

TEST_CASE("captured tensors and the generator are as before a trace without values",
          "[capture][without_values]") {
  const Tensor average = torch::zeros({4}), count = torch::zeros({}, torch::kLong);
  const auto function = [&](const Tensors& in) {
    average.mul_(0.9).add_(in[0].sin().mean(0), 0.1);
    count.add_(1);
    return Tensors{torch::dropout(in[0], 0.5, true) + average};
  };
  const Tensor x = torch::randn({3, 4});
  const Tensor state = at::detail::getDefaultCPUGenerator().get_state();

  const std::string graph = printed(function, {x}, {.without_values = true});

  CHECK(graph == printed(function, {x}, {}));
  CHECK(torch::equal(average, torch::zeros({4})));
  CHECK(count.item<std::int64_t>() == 0);
  CHECK(torch::equal(state, at::detail::getDefaultCPUGenerator().get_state()));
}

TEST_CASE("what a program keeps is computed without drawing from the generator",
          "[capture][without_values]") {
  const bool fails = GENERATE(false, true);
  Tensor kept;
  const auto function = [&](const Tensors& in) {
    kept = in[0] + torch::randn({3, 4});
    if (fails) {
      throw std::runtime_error("after it was kept");
    }
    return Tensors{in[0] * 2};
  };
  const Tensor x = torch::randn({3, 4});
  const Tensor state = at::detail::getDefaultCPUGenerator().get_state();

  if (fails) {
    CHECK_THROWS(record(function, {x}, {.without_values = true}));
  } else {
    (void)record(function, {x}, {.without_values = true}).compute_escaped({});
  }

  CHECK(torch::equal(state, at::detail::getDefaultCPUGenerator().get_state()));
  CHECK(torch::equal(kept, x + torch::randn({3, 4})));
}

TEST_CASE("integers are computed, so that indices are refused as in eager",
          "[capture][without_values]") {
  const auto look_up = [](const Tensors& in) {
    const Tensor places = torch::arange(in[0].size(0)) + in[1];
    return Tensors{torch::nll_loss(in[0].log_softmax(1), places), torch::embedding(in[0], places)};
  };
  const Tensor table = torch::randn({4, 9});
  const auto at_offset = [&](std::int64_t offset) {
    return printed(look_up, {table, torch::tensor(offset)}, {.without_values = true});
  };

  CHECK(at_offset(0) == printed(look_up, {table, torch::tensor(0)}, {}));
  CHECK_THROWS_WITH(at_offset(7), contains("out of bounds"));
}

TEST_CASE("who looks at what was not computed is refused", "[capture][without_values]") {
  const Tensors inputs{torch::rand({4, 4}), torch::rand({4, 4})};
  const std::vector<Product> programs = {
      {"a loss that wants numbers between 0 and 1",
       [](const Tensors& in) { return Tensors{torch::binary_cross_entropy(in[0].sin(), in[1])}; },
       inputs},
      {"indices that come from numbers",
       [](const Tensors& in) { return Tensors{in[1].gather(1, (in[0] * 2).argmax(1, true))}; },
       inputs}};
  for (const Product& program : programs) {
    INFO(program.name);
    CHECK_THROWS_AS(record(program.function, program.operands, {.without_values = true}), Error);
    CHECK_NOTHROW(record(program.function, program.operands));
  }
}

TEST_CASE("whether a matrix has an inverse is asked when the graph runs",
          "[capture][without_values]") {
  const auto invert = [](const Tensors& in) { return Tensors{torch::inverse(in[0] + in[1])}; };
  const Tensors regular{torch::eye(3), torch::eye(3)};

  const ir::Graph graph = record(invert, regular, {.without_values = true}).graph;

  CHECK(printed(invert, regular, {.without_values = true}) == printed(invert, regular, {}));
  CHECK(torch::equal(Interpreter(graph).run(regular)[0], torch::eye(3) / 2));
  CHECK_THROWS_WITH(Interpreter(graph).run({torch::eye(3), -torch::eye(3)}), contains("singular"));
}

TEST_CASE("operands that do not fit are libtorch's error with values and without",
          "[capture][without_values]") {
  const torch::NoGradGuard no_grad;
  const std::vector<Product> wrong = {
      {"mm",
       [](const Tensors& in) { return Tensors{in[0].mm(in[1])}; },
       {torch::randn({4, 6}), torch::randn({5, 6})}},
      {"convolution",
       [](const Tensors& in) { return Tensors{convolved(in, 1, 0, 1, 1)}; },
       {torch::randn({2, 4, 9, 7}), torch::randn({8, 3, 3, 3})}},
      {"convolution of too few",
       [](const Tensors& in) { return Tensors{convolved(in, 1, 0, 1, 1)}; },
       {torch::randn({2, 4, 2, 2}), torch::randn({8, 4, 3, 3})}},
      {"transposed convolution with too much output padding",
       [](const Tensors& in) {
         return Tensors{torch::conv_transpose2d(in[0], in[1], {}, 2, 0, 2)};
       },
       {torch::randn({2, 4, 9, 7}), torch::randn({4, 8, 3, 3})}},
      {"transposed convolution of nothing",
       [](const Tensors& in) { return Tensors{torch::conv_transpose2d(in[0], in[1], {}, 1, 3)}; },
       {torch::randn({2, 4, 2, 2}, torch::kDouble), torch::randn({4, 8, 3, 3}, torch::kDouble)}}};
  const auto message = [](const Product& product, const RecordOptions& options) {
    try {
      static_cast<void>(record(product.function, product.operands, options));
    } catch (const c10::Error& error) {
      return std::string(error.what_without_backtrace());
    }
    return std::string();
  };
  for (const Product& product : wrong) {
    INFO(product.name);
    CHECK(!message(product, {}).empty());
    CHECK(message(product, {.without_values = true}) == message(product, {}));
  }
}

TEST_CASE("tensors are compared where they were computed", "[capture][without_values]") {
  const auto compare = [](const Tensors& in) {
    return Tensors{torch::equal(in[0].mm(in[1]), in[0]) ? in[0].sin() : in[0].cos()};
  };
  const Tensors inputs{torch::ones({2, 2}), torch::ones({2, 2})};
  CHECK_THROWS_AS(record(compare, inputs, {.without_values = true}), Error);
  CHECK(record(compare, inputs).outputs.size() == 1);
  const auto compare_inputs = [](const Tensors& in) {
    return Tensors{torch::equal(in[0], in[1]) ? in[0].sin() : in[0].cos()};
  };
  CHECK(printed(compare_inputs, inputs, {.without_values = true}) ==
        printed(compare_inputs, inputs, {}));
}

}  // namespace
}  // namespace kiln::capture
