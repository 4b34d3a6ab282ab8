#include <torch/torch.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::capture {
namespace {

using torch::Tensor;

struct Product {
  std::string name;
  TensorFunction function;
  Tensors operands;
};

Tensor convolved(const Tensors& in, int stride, int padding, int dilation, int groups) {
  return torch::conv2d(in[0], in[1], {}, stride, padding, dilation, groups);
}

std::vector<Product> matrix_products() {
  const Tensor a = torch::randn({4, 6}), b = torch::randn({6, 5}), c = torch::randn({5});
  const Tensor batch = torch::randn({3, 4, 6}), other = torch::randn({3, 5, 6});
  return {
      {"mm", [](const Tensors& in) { return Tensors{in[0].mm(in[1])}; }, {a, b}},
      {"mm, turned", [](const Tensors& in) { return Tensors{in[1].t().mm(in[0].t())}; }, {a, b}},
      {"mm, double",
       [](const Tensors& in) { return Tensors{in[0].mm(in[1])}; },
       {a.to(torch::kDouble), b.to(torch::kDouble)}},
      {"mm, bfloat16",
       [](const Tensors& in) { return Tensors{in[0].mm(in[1])}; },
       {a.to(torch::kBFloat16), b.to(torch::kBFloat16)}},
      {"mm of nothing",
       [](const Tensors& in) { return Tensors{in[0].mm(in[1])}; },
       {torch::randn({4, 0}), torch::randn({0, 5})}},
      {"addmm",
       [](const Tensors& in) { return Tensors{torch::addmm(in[2], in[0], in[1], 2, 3)}; },
       {a, b, c}},
      {"linear",
       [](const Tensors& in) { return Tensors{torch::linear(in[0], in[1].t(), in[2])}; },
       {a, b, c}},
      {"bmm",
       [](const Tensors& in) { return Tensors{in[0].bmm(in[1].transpose(1, 2))}; },
       {batch, other}},
      {"baddbmm",
       [](const Tensors& in) {
         return Tensors{torch::baddbmm(in[2], in[0], in[1].transpose(1, 2))};
       },
       {batch, other, c}}};
}

std::vector<Product> convolutions() {
  const Tensor image = torch::randn({2, 4, 9, 7});
  const Tensor weight = torch::randn({8, 4, 3, 3});
  const auto plain = [](const Tensors& in) { return Tensors{convolved(in, 1, 0, 1, 1)}; };
  return {
      {"convolution", plain, {image, weight}},
      {"one by one", plain, {image, torch::randn({8, 4, 1, 1})}},
      {"one channel", plain, {torch::randn({2, 1, 9, 7}), torch::randn({8, 1, 3, 3})}},
      {"of the size of the image", plain, {image, torch::randn({8, 4, 9, 7})}},
      {"channels last", plain, {image.to(at::MemoryFormat::ChannelsLast), weight}},
      {"weights channels last", plain, {image, weight.to(at::MemoryFormat::ChannelsLast)}},
      {"not dense", plain, {torch::randn({2, 4, 9, 14}).slice(3, 0, 14, 2), weight}},
      {"complex", plain, {image.to(torch::kComplexFloat), weight.to(torch::kComplexFloat)}},
      {"with steps", plain, {torch::randn({2, 4, 9, 7, 3}).select(4, 1), weight}},
      {"one channel with steps",
       plain,
       {torch::randn({2, 1, 9, 7, 2}).select(4, 0), torch::randn({8, 1, 3, 3, 2}).select(4, 0)}},
      {"stride, padding, dilation",
       [](const Tensors& in) { return Tensors{convolved(in, 2, 3, 2, 1)}; },
       {image, weight}},
      {"groups",
       [](const Tensors& in) { return Tensors{convolved(in, 1, 1, 1, 4)}; },
       {image, torch::randn({8, 1, 3, 3})}},
      {"a line",
       [](const Tensors& in) { return Tensors{torch::conv1d(in[0], in[1], in[2], 2)}; },
       {torch::randn({2, 4, 9}), torch::randn({8, 4, 3}), torch::randn({8})}},
      {"a volume",
       [](const Tensors& in) { return Tensors{torch::conv3d(in[0], in[1])}; },
       {torch::randn({2, 4, 5, 6, 7}), torch::randn({8, 4, 2, 2, 2})}}};
}

std::vector<Product> transposed_convolutions() {
  const Tensor image = torch::randn({2, 4, 9, 7}), weight = torch::randn({4, 8, 3, 3});
  const auto plain = [](const Tensors& in) {
    return Tensors{torch::conv_transpose2d(in[0], in[1])};
  };
  return {
      {"transposed", plain, {image, weight}},
      {"transposed, channels last", plain, {image.to(at::MemoryFormat::ChannelsLast), weight}},
      {"transposed, double", plain, {image.to(torch::kDouble), weight.to(torch::kDouble)}},
      {"transposed, complex",
       plain,
       {image.to(torch::kComplexDouble), weight.to(torch::kComplexDouble)}},
      {"transposed, stride, padding, output padding, groups, dilation",
       [](const Tensors& in) {
         return Tensors{
             torch::conv_transpose2d(in[0], in[1], in[2], {3, 2}, {1, 2}, {2, 1}, 2, {1, 2})};
       },
       {image, torch::randn({4, 3, 3, 3}), torch::randn({6})}},
      {"transposed, output padding within the dilation",
       [](const Tensors& in) {
         return Tensors{torch::conv_transpose2d(in[0], in[1], {}, 1, 0, 1, 1, 2)};
       },
       {image, weight}},
      {"transposed, a line",
       [](const Tensors& in) { return Tensors{torch::conv_transpose1d(in[0], in[1], in[2], 2)}; },
       {torch::randn({2, 4, 9}), torch::randn({4, 8, 3}), torch::randn({8})}},
      {"transposed, a volume",
       [](const Tensors& in) { return Tensors{torch::conv_transpose3d(in[0], in[1], {}, 2)}; },
       {torch::randn({2, 4, 5, 6, 7}), torch::randn({4, 8, 2, 2, 2})}}};
}

std::vector<Product> attentions() {
  const Tensor query = torch::randn({2, 3, 5, 8}), key = torch::randn({2, 3, 6, 8});
  const auto attend = [](const Tensors& in) {
    return Tensors{torch::scaled_dot_product_attention(in[0], in[1], in[2])};
  };
  const Tensor heads = torch::randn({2, 5, 3, 8}).transpose(1, 2);
  return {{"attention", attend, {query, key, key}},
          {"attention, heads within rows", attend, {heads, heads, heads}},
          {"attention, mixed", attend, {heads, key, key}},
          {"attention, bfloat16",
           attend,
           {query.to(torch::kBFloat16), key.to(torch::kBFloat16), key.to(torch::kBFloat16)}}};
}

// Norms, losses, look-ups, drop-outs, writes and views.
std::vector<Product> layers() {
  const Tensor x = torch::randn({4, 6}), image = torch::randn({2, 4, 6, 6});
  const Tensor places = torch::tensor({1, 0, 3}), classes = torch::tensor({5, 0, 2, 1});
  const Tensor mean = torch::zeros({4}), variance = torch::ones({4});
  const auto normalize = [](bool training) {
    return [training](const Tensors& in) {
      return Tensors{torch::batch_norm(
          in[0] * 2, {}, {}, in[1].detach(), in[2].detach(), training, 0.1, 1e-5, false)};
    };
  };
  return {
      {"layer norm",
       [](const Tensors& in) { return Tensors{torch::layer_norm(in[0].sin(), {6}, in[1], in[1])}; },
       {x, torch::ones({6})}},
      {"group norm",
       [](const Tensors& in) { return Tensors{torch::group_norm(in[0].exp(), 2)}; },
       {image}},
      {"batch norm", normalize(true), {image, mean, variance}},
      {"batch norm, fixed", normalize(false), {image, mean, variance}},
      {"embedding",
       [](const Tensors& in) { return Tensors{torch::embedding(in[0] * 2, in[1]).tanh()}; },
       {x, places}},
      {"cross entropy",
       [](const Tensors& in) { return Tensors{torch::cross_entropy_loss(in[0].sin(), in[1])}; },
       {x, classes}},
      {"dropout",
       [](const Tensors& in) { return Tensors{torch::dropout(in[0].sin(), 0.5, true).exp()}; },
       {x}},
      {"pools",
       [](const Tensors& in) {
         return Tensors{torch::max_pool2d(in[0].exp(), 2),
                        torch::adaptive_avg_pool2d(in[0], {3, 3})};
       },
       {image}},
      {"writes and views",
       [](const Tensors& in) {
         Tensor y = in[0].sin();
         y.select(0, 1).mul_(2);
         y.slice(1, 0, 4, 2).copy_(in[0].slice(1, 0, 2));
         y.masked_fill_(in[0] > 0, 1);
         return Tensors{y.t().reshape({-1}),
                        torch::zeros({3, 6}).index_add_(0, in[1], y.narrow(0, 0, 3))};
       },
       {x, torch::tensor({0, 2, 1})}},
      {"numbers beside tensors",
       [](const Tensors& in) {
         return Tensors{in[0] * 2 + in[0].to(torch::kDouble) * torch::tensor(3) + in[1] * 0.5};
       },
       {x, torch::arange(6)}},
      {"copies in a list", [](const Tensors& in) { return at::unbind_copy(in[0].sin()); }, {x}},
      {"lists",
       [](const Tensors& in) {
         const Tensors parts = torch::unsafe_chunk(torch::cat({in[0], in[0].sin()}), 2);
         return Tensors{torch::stack(parts), std::get<0>(std::get<0>(in[0].sin().topk(2)).sort())};
       },
       {x}}};
}

// Layouts and types of what has a rule for its results.
std::vector<Product> normalizations() {
  const Tensor image = torch::randn({2, 4, 6, 5});
  const auto last = at::MemoryFormat::ChannelsLast;
  const auto with = [](auto function) {
    return [function](const Tensors& in) { return Tensors{function(in[0].sin(), in)}; };
  };
  const auto rectify = with([](const Tensor& x, const Tensors&) { return torch::relu(x); });
  const auto by_rows =
      with([](const Tensor& x, const Tensors&) { return torch::layer_norm(x, {6, 5}); });
  const auto by_groups =
      with([](const Tensor& x, const Tensors&) { return torch::group_norm(x, 2); });
  const auto by_channels = with([](const Tensor& x, const Tensors& in) {
    return torch::batch_norm(x, {}, {}, in[1], in[2], false, 0.1, 1e-5, false);
  });
  std::vector<Product> products;
  for (const auto& [name, input] :
       {std::pair("dense", image),
        std::pair("channels last", image.to(last)),
        std::pair("transposed", image.transpose(0, 1)),
        std::pair("not dense", torch::randn({2, 4, 6, 10}).slice(3, 0, 10, 2)),
        std::pair("double", image.to(torch::kDouble)),
        std::pair("bfloat16", image.to(torch::kBFloat16)),
        std::pair("one", image.narrow(0, 0, 1)),
        std::pair("none", image.narrow(0, 0, 0))}) {
    const auto options = torch::dtype(input.scalar_type());
    const Tensor mean = torch::zeros({input.size(1)}, options);
    const Tensor variance = torch::ones({input.size(1)}, options);
    const std::string text = std::string(", ") + name;
    products.push_back({"relu" + text, rectify, {input}});
    products.push_back({"layer norm" + text, by_rows, {input}});
    products.push_back({"batch norm, fixed" + text, by_channels, {input, mean, variance}});
    if (input.numel() != 0 && input.size(1) % 2 == 0) {
      products.push_back({"group norm" + text, by_groups, {input}});
    }
  }
  return products;
}

// Without autograd's numbers, which go on from trace to trace.
std::string printed(const TensorFunction& function,
                    const Tensors& inputs,
                    const RecordOptions& options) {
  static const std::regex sequence(" sequence [0-9]+");
  return std::regex_replace(ir::print(record(function, inputs, options).graph), sequence, "");
}

// Shapes, strides and types are libtorch's.
void check_same_graph(const Product& product) {
  INFO(product.name);
  CHECK(printed(product.function, product.operands, {.without_values = true}) ==
        printed(product.function, product.operands, {}));
}

// With the gradients of all operands that have one.
Product differentiated(const Product& product) {
  const auto function = [product](const Tensors& in) {
    Tensors outputs = product.function(in), differentiable, ones;
    for (const Tensor& output : outputs) {
      if (output.requires_grad()) {
        differentiable.push_back(output);
        ones.push_back(torch::ones_like(output));
      }
    }
    Tensors leaves;
    std::copy_if(in.begin(), in.end(), std::back_inserter(leaves), [](const Tensor& tensor) {
      return tensor.requires_grad();
    });
    const Tensors gradients =
        torch::autograd::grad(differentiable, leaves, ones, std::nullopt, false, true);
    outputs.insert(outputs.end(), gradients.begin(), gradients.end());
    return outputs;
  };
  Tensors operands;
  for (const Tensor& operand : product.operands) {
    const bool has_gradient = operand.is_floating_point() || operand.is_complex();
    operands.push_back(operand.detach().requires_grad_(has_gradient));
  }
  return {product.name + ", differentiated", function, operands};
}

TEST_CASE("a trace without values has the graph of one with them", "[capture][without_values]") {
  for (const auto& products : {matrix_products(),
                               convolutions(),
                               transposed_convolutions(),
                               attentions(),
                               layers(),
                               normalizations()}) {
    for (const Product& product : products) {
      const torch::NoGradGuard no_grad;
      check_same_graph(product);
    }
  }
}

TEST_CASE("a transposed convolution is not computed for its graph", "[capture][without_values]") {
  const auto function = [](const Tensors& in) {
    return Tensors{torch::conv_transpose2d(in[0], in[1], {}, 1, 0, 1, 1, 2)};
  };
  for (const auto type : {torch::kFloat, torch::kComplexFloat}) {
    // More memory than there is.
    const Tensors inputs = {torch::empty({1, 1, 1024, 1024}, type),
                            torch::empty({1, 1 << 20, 2, 2}, type)};

    const Recording recording = record(function, inputs, {.without_values = true});

    const ir::Output& output = recording.graph.outputs()[0];
    CHECK(recording.graph.tensor(output.value).sizes[1] == ir::Expr(1 << 20));
  }
}

TEST_CASE("segments are not read for a graph", "[capture][without_values]") {
  const torch::NoGradGuard no_grad;
  const auto by_lengths = [](const Tensors& in) {
    return Tensors{torch::segment_reduce(in[0], "max", in[1], {}, {}, 1)};
  };
  const auto by_offsets = [](const Tensors& in) {
    return Tensors{torch::segment_reduce(in[0], "sum", {}, {}, in[1], 1)};
  };
  const Tensor data = torch::randn({2, 5, 3});
  check_same_graph({"lengths", by_lengths, {data, torch::tensor({{2, 3}, {1, 4}})}});
  check_same_graph({"offsets", by_offsets, {data, torch::tensor({{0, 2, 5}, {0, 1, 5}})}});

  // The kernel would read what is not there.
  const Tensors wrong = {data, torch::full({2, 3}, std::int64_t{1} << 40)};
  const Recording recording = record(by_offsets, wrong, {.without_values = true});

  CHECK(recording.graph.tensor(recording.graph.outputs()[0].value).sizes[1] == ir::Expr(2));
}

TEST_CASE("a recurrent layer is not computed for its graph", "[capture][without_values]") {
  const torch::NoGradGuard no_grad;
  for (const bool both : {false, true}) {
    torch::nn::LSTM lstm(
        torch::nn::LSTMOptions(6, 5).num_layers(2).bidirectional(both).batch_first(true));
    lstm->eval();
    const Product layers{"LSTM",
                         [&](const Tensors& in) {
                           const auto [y, state] = lstm(in[0].sin());
                           return Tensors{y, std::get<0>(state), std::get<1>(state)};
                         },
                         {torch::randn({3, 4, 6})}};
    check_same_graph(layers);
  }
}

TEST_CASE("gradients without values have the graph of those with them",
          "[capture][without_values]") {
  for (const auto& products :
       {matrix_products(), convolutions(), transposed_convolutions(), attentions(), layers()}) {
    for (const Product& product : products) {
      check_same_graph(differentiated(product));
    }
  }
}

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
  CHECK_THROWS_WITH(at_offset(7), testing::contains("out of bounds"));
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
  CHECK_THROWS_WITH(Interpreter(graph).run({torch::eye(3), -torch::eye(3)}),
                    testing::contains("singular"));
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
