#include <torch/torch.h>

#include <string>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::capture {
namespace {

using torch::Tensor;

struct Product {
  std::string name;
  TensorFunction function;
  Tensors operands;
  /// Where its geometry is not foretold.
  bool is_computed = false;
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
      {"channels last", plain, {image.to(at::MemoryFormat::ChannelsLast), weight}, true},
      {"weights channels last", plain, {image, weight.to(at::MemoryFormat::ChannelsLast)}, true},
      {"not dense", plain, {torch::randn({2, 4, 9, 14}).slice(3, 0, 14, 2), weight}, true},
      {"stride, padding, dilation",
       [](const Tensors& in) { return Tensors{convolved(in, 2, 3, 2, 1)}; },
       {image, weight}},
      {"groups",
       [](const Tensors& in) { return Tensors{convolved(in, 1, 1, 1, 4)}; },
       {image, torch::randn({8, 1, 3, 3})}},
      {"transposed",
       [](const Tensors& in) { return Tensors{torch::conv_transpose2d(in[0], in[1])}; },
       {image, torch::randn({4, 8, 3, 3})},
       true},
      {"a line",
       [](const Tensors& in) { return Tensors{torch::conv1d(in[0], in[1], in[2], 2)}; },
       {torch::randn({2, 4, 9}), torch::randn({8, 4, 3}), torch::randn({8})}},
      {"a volume",
       [](const Tensors& in) { return Tensors{torch::conv3d(in[0], in[1])}; },
       {torch::randn({2, 4, 5, 6, 7}), torch::randn({8, 4, 2, 2, 2})}}};
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

// Computed and skipped, the graph is the same: shapes, strides and types are libtorch's.
void check_same_graph(const Product& product) {
  INFO(product.name);
  const torch::NoGradGuard no_grad;
  const Recording computed = record(product.function, product.operands);
  const Recording skipped = record(product.function, product.operands, {.skip_products = true});
  CHECK(ir::print(skipped.graph) == ir::print(computed.graph));
  REQUIRE(skipped.outputs.size() == 1);
  CHECK(skipped.outputs[0].strides() == computed.outputs[0].strides());
  CHECK(torch::equal(skipped.outputs[0], torch::zeros_like(skipped.outputs[0])) !=
        product.is_computed);
}

TEST_CASE("a trace without products has the graph of one with them", "[capture][products]") {
  for (const auto& products : {matrix_products(), convolutions(), attentions()}) {
    for (const Product& product : products) {
      check_same_graph(product);
    }
  }
}

TEST_CASE("products that are skipped are zero", "[capture][products]") {
  const Tensor a = torch::ones({4, 6}), b = torch::ones({6, 5});
  const auto multiply = [](const Tensors& in) { return Tensors{in[0].mm(in[1])}; };
  CHECK(torch::equal(record(multiply, {a, b}, {.skip_products = true}).outputs[0],
                     torch::zeros({4, 5})));
  CHECK(torch::equal(record(multiply, {a, b}).outputs[0], torch::full({4, 5}, 6.0)));
}

TEST_CASE("operands that do not fit are libtorch's error with products and without",
          "[capture][products]") {
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
       {torch::randn({2, 4, 2, 2}), torch::randn({8, 4, 3, 3})}}};
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
    CHECK(message(product, {.skip_products = true}) == message(product, {}));
  }
}

TEST_CASE("without products nothing is compared", "[capture][products]") {
  const auto compare = [](const Tensors& in) {
    return Tensors{torch::equal(in[0].mm(in[1]), in[0]) ? in[0].sin() : in[0].cos()};
  };
  const Tensors inputs{torch::ones({2, 2}), torch::ones({2, 2})};
  CHECK_THROWS_AS(record(compare, inputs, {.skip_products = true}), Error);
  CHECK(record(compare, inputs).outputs.size() == 1);
}

}  // namespace
}  // namespace kiln::capture
