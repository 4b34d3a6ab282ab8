#include <torch/torch.h>

#include <limits>
#include <vector>

#include <stdexcept>
#include <string>

#include "kiln/base/error.hpp"
#include "kiln/capture/control_flow.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::capture {
namespace {

using kiln::testing::contains;

const RecordOptions kChecked{.check_hidden_reads = true};

float first_element(const torch::Tensor& tensor) {
  return tensor.data_ptr<float>()[0];
}

std::string refusal_of(const TensorFunction& function, const Tensors& inputs) {
  try {
    static_cast<void>(record(function, inputs, kChecked));
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUnsupported);
    return error.what();
  }
  return "nothing";
}

TEST_CASE("a literal that was read without the dispatcher is reported with its place",
          "[capture][hidden_reads]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor y = in[0].sin();
    const ModuleScope module("head.scale");
    const SourceScope source("model.cpp:42");
    return Tensors{y * first_element(in[0])};
  };
  const torch::Tensor x = torch::tensor({0.5, 1.0}, torch::kFloat);

  CHECK_NOTHROW(static_cast<void>(record(function, {x})));

  const std::string refusal = refusal_of(function, {x});
  CHECK_THAT(refusal, contains("without going through the dispatcher"));
  CHECK_THAT(refusal, contains("operator 1, aten.mul.Scalar at model.cpp:42 in head.scale"));
  CHECK_THAT(refusal, contains("the argument other was 0.5 and is 0.140625"));
}

TEST_CASE("the argument that differs is named", "[capture][hidden_reads]") {
  const std::string refusal = refusal_of(
      [](const Tensors& in) { return Tensors{torch::leaky_relu(in[0], first_element(in[0]))}; },
      {torch::ones({3})});

  CHECK_THAT(refusal, contains("operator 0, aten.leaky_relu.default: the argument negative_slope"));
}

TEST_CASE("a branch on a value read without the dispatcher is reported",
          "[capture][hidden_reads]") {
  const auto function = [](const Tensors& in) {
    return Tensors{first_element(in[0]) > 0 ? in[0].sin() : in[0].cos()};
  };
  CHECK_THAT(refusal_of(function, {torch::ones({3})}),
             contains("aten.sin.default, is operator 0, aten.cos.default instead"));

  const auto longer = [](const Tensors& in) {
    const torch::Tensor y = in[0].sin();
    return Tensors{first_element(in[0]) > 0 ? y.exp() : y};
  };
  CHECK_THAT(refusal_of(longer, {torch::ones({3})}), contains("aten.exp.default, is no longer"));
  CHECK_THAT(refusal_of(longer, {-torch::ones({3})}), contains("aten.exp.default, was not called"));

  const auto returned = [](const Tensors& in) {
    return Tensors{first_element(in[0]) > 0 ? in[0] : in[1]};
  };
  CHECK_THAT(refusal_of(returned, {torch::ones({3}), torch::ones({3})}),
             contains("it returns other values"));
}

TEST_CASE("a branch that leads to a read that the tracer sees is reported",
          "[capture][hidden_reads]") {
  const auto function = [](const Tensors& in) {
    return Tensors{first_element(in[0]) > 0 ? in[0] + 1 : in[0] + in[0].sum().item()};
  };

  CHECK_THAT(refusal_of(function, {torch::ones({3})}), contains("aten._local_scalar_dense"));
}

TEST_CASE("values read from captured tensors and from literals of the program are found",
          "[capture][hidden_reads]") {
  const torch::Tensor weight = torch::full({2}, 3.0F);
  const auto scaled = [&](const Tensors& in) {
    return Tensors{in[0] * weight * first_element(weight)};
  };
  CHECK_THAT(refusal_of(scaled, {torch::ones({2})}), contains("was 3.0 and is"));
  CHECK(torch::equal(weight, torch::full({2}, 3.0F)));

  const auto copied = [](const Tensors& in) {
    return Tensors{in[0] + torch::tensor({first_element(in[0]), 1.0F})};
  };
  CHECK_THAT(refusal_of(copied, {torch::ones({2})}),
             contains("without going through the dispatcher"));
}

TEST_CASE("integers and booleans that are read are found, and indices stay within bounds",
          "[capture][hidden_reads]") {
  const torch::Tensor table = torch::randn({7, 3});
  const torch::Tensor rows = torch::tensor({6, 0, 3});
  const auto lookup = [&](const Tensors& in) { return Tensors{torch::embedding(table, in[0])}; };
  CHECK(refusal_of(lookup, {rows}) == "nothing");

  const auto picks = [&](const Tensors& in) {
    return Tensors{table.select(0, in[0].data_ptr<std::int64_t>()[0]) + 1};
  };
  CHECK_THAT(refusal_of(picks, {rows}), contains("the argument index was 6 and is 3"));
  CHECK_THAT(refusal_of(picks, {torch::tensor({2})}),
             contains("the argument index was 2 and is 1"));

  const auto masked = [](const Tensors& in) {
    return Tensors{in[0].data_ptr<bool>()[0] ? in[1].sin() : in[1]};
  };
  CHECK_THAT(refusal_of(masked, {torch::ones({2}, torch::kBool), torch::ones({2})}),
             contains("aten.sin.default, is no longer called"));
}

TEST_CASE("programs that read nothing pass, and everything is as before",
          "[capture][hidden_reads]") {
  torch::nn::Sequential network(
      torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8), torch::nn::Dropout(0.5));
  const torch::Tensor x = torch::randn({5, 4}, torch::requires_grad());
  const torch::Tensor before = x.detach().clone();
  const torch::Tensor mean = network->named_buffers()["1.running_mean"].clone();
  const auto function = [&](const Tensors& in) {
    const torch::Tensor loss = network->forward(in[0]).pow(2).sum() * 0.1;
    return Tensors{loss,
                   torch::autograd::grad({loss}, {in[0]})[0],
                   torch::tensor({1.0F, std::nanf("")}) + torch::rand({2})};
  };
  torch::manual_seed(3);
  const torch::Tensor drawn = torch::rand({4});
  torch::manual_seed(3);

  const Recording recording = record(function, {x}, kChecked);

  CHECK(torch::equal(torch::rand({4}), drawn));
  CHECK(torch::equal(x, before));
  CHECK(torch::equal(network->named_buffers()["1.running_mean"], mean));
  CHECK(recording.graph.nodes().size() > 10);
}

TEST_CASE("both branches of cond are recorded, so that its predicate is no hidden read",
          "[capture][hidden_reads]") {
  const auto function = [](const Tensors& in) {
    return cond(
        in[0].sum() > 0,
        [](const Tensors& operands) { return Tensors{operands[0].sin()}; },
        [](const Tensors& operands) { return Tensors{operands[0].cos()}; },
        {in[0]});
  };

  CHECK(refusal_of(function, {torch::ones({3})}) == "nothing");
}

TEST_CASE("data that the program does not take is replaced by data nearer to the given one",
          "[capture][hidden_reads]") {
  const auto probability = [](const Tensors& in) {
    return Tensors{torch::bernoulli(in[0]), torch::linalg_cholesky(in[1])};
  };
  CHECK(refusal_of(probability, {torch::full({3}, 0.9), torch::eye(3)}) == "nothing");

  const auto picky = [](const Tensors& in) {
    if (first_element(in[0]) != 1) {
      throw std::runtime_error("it must be one");
    }
    return Tensors{in[0] + 1};
  };
  CHECK_THAT(refusal_of(picky, {torch::ones({3})}), contains("it must be one"));
}

TEST_CASE("a trace that is the call itself has its effects once, on the caller's data",
          "[capture][hidden_reads]") {
  const torch::Tensor buffer = torch::zeros({3});
  const torch::Tensor x = torch::ones({3});
  const auto function = [&](const Tensors& in) {
    buffer.add_(in[0]);
    return Tensors{buffer * 2};
  };

  const Recording recording =
      record(function, {x}, {.on_shadow_inputs = false, .check_hidden_reads = true});

  CHECK(torch::equal(buffer, torch::ones({3})));
  CHECK(torch::equal(recording.outputs[0], torch::full({3}, 2.0)));
}

TEST_CASE("each of several literals is compared", "[capture][hidden_reads]") {
  const auto scaled_and_shifted = [](bool scale_is_read) {
    return [scale_is_read](const Tensors& in) {
      const std::vector<float> read{first_element(in[0]), 1}, fixed{2, 3};
      const torch::Tensor scale = torch::tensor(scale_is_read ? read : fixed);
      const torch::Tensor shift = torch::tensor(scale_is_read ? fixed : read);
      return Tensors{in[0] * scale + shift};
    };
  };
  for (const bool scale_is_read : {true, false}) {
    CAPTURE(scale_is_read);
    CHECK_THAT(refusal_of(scaled_and_shifted(scale_is_read), {torch::ones({2})}),
               contains("uses another tensor that is not an input, or one with other elements"));
  }
}

TEST_CASE("a complex literal that is no number is what it was", "[capture][hidden_reads]") {
  const auto literal = [](const Tensors& in) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<c10::complex<float>> numbers{{nan, 1}, {2, nan}};
    return Tensors{in[0] * torch::tensor(numbers)};
  };

  CHECK_NOTHROW(record(literal, {torch::ones({2})}, {.check_hidden_reads = true}));
}

}  // namespace
}  // namespace kiln::capture
