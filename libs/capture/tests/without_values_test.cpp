#include <torch/torch.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "kiln/capture/record.hpp"
#include "kiln/testing/catch2.hpp"
#include "same_graph.hpp"

namespace kiln::capture {
namespace {

using testing::check_same_graph;
using testing::convolved;
using testing::Product;
using torch::Tensor;

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

}  // namespace
}  // namespace kiln::capture
