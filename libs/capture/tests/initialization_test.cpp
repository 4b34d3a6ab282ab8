#include <torch/torch.h>

#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::capture {
namespace {

using kiln::testing::contains;

Tensors run_again(const Recording& recording, Tensors inputs) {
  inputs.insert(inputs.end(), recording.captured.begin(), recording.captured.end());
  return Interpreter(recording.graph).run(std::move(inputs));
}

std::string message_of(const TensorFunction& program, const Tensors& inputs) {
  try {
    static_cast<void>(record(program, inputs));
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_CASE("a composite operator that computes through raw pointers is recorded whole",
          "[capture][initialization]") {
  const at::NoGradGuard no_grad;
  const auto pool = [](const Tensors& in) {
    return Tensors{torch::max_pool1d(in[0], 3, 2).relu()};
  };
  const Recording recording = record(pool, {torch::randn({2, 3, 17})});
  const torch::Tensor x = torch::randn({2, 3, 17});

  const Tensors outputs = run_again(recording, {x});

  CHECK(torch::equal(outputs[0], pool({x})[0]));
  const ir::Graph live = ir::remove_dead_code(recording.graph);
  REQUIRE(live.nodes().size() == 2);
  CHECK(live.nodes()[0].target == "aten.max_pool1d.default");
}

TEST_CASE(
    "memory that is filled through a raw pointer is refused by the operator and line that "
    "allocated it",
    "[capture][initialization]") {
  const auto fill = [](const Tensors& in) {
    const SourceScope here("program.cpp:12");
    const torch::Tensor table = torch::empty({4});
    table.data_ptr<float>()[0] = 1;
    return Tensors{in[0] * table};
  };

  const std::string message = message_of(fill, {torch::ones({4})});

  CHECK_THAT(message, contains("aten.mul.Tensor reads memory that aten.empty.memory_format"));
  CHECK_THAT(message, contains("program.cpp:12"));
  CHECK_THAT(message, contains("fill it with operators"));
}

TEST_CASE("uninitialised memory may be returned if that is asked for",
          "[capture][initialization]") {
  const auto make = [](const Tensors& in) { return Tensors{torch::empty_like(in[0])}; };

  CHECK_THAT(message_of(make, {torch::ones({4})}),
             contains("the program returns memory that aten.empty_like.default"));
  CHECK(record(make, {torch::ones({4})}, {.allow_uninitialized = true}).graph.nodes().size() == 1);
}

TEST_CASE("memory that operators write part by part is initialised", "[capture][initialization]") {
  const auto columns = [](const Tensors& in) {
    const torch::Tensor out = torch::empty({4, 3});
    for (int i = 0; i < 3; ++i) {
      out.select(1, i).copy_(in[0] + i);
    }
    return Tensors{out * 2};
  };
  const auto blocks = [](const Tensors& in) {
    const torch::Tensor out = torch::empty({8});
    out.slice(0, 0, 4).copy_(in[0]);
    torch::Tensor rest = out.slice(0, 4);
    torch::add_out(rest, in[0], in[0]);
    return Tensors{out};
  };
  const auto resized = [](const Tensors& in) {
    torch::Tensor out = torch::empty({0});
    torch::mul_out(out, in[0], in[0]);
    return Tensors{out + 1};
  };
  const torch::Tensor x = torch::randn({4});

  for (const TensorFunction& program :
       {TensorFunction(columns), TensorFunction(blocks), TensorFunction(resized)}) {
    const Recording recording = record(program, {torch::randn({4})});
    CHECK(torch::equal(run_again(recording, {x})[0], program({x})[0]));
  }
}

TEST_CASE("one element that nobody wrote is enough to refuse", "[capture][initialization]") {
  const auto gap = [](const Tensors& in) {
    const torch::Tensor out = torch::empty({4, 3});
    out.select(1, 0).copy_(in[0]);
    out.select(1, 2).copy_(in[0]);
    return Tensors{out};
  };
  const auto accumulate = [](const Tensors& in) { return Tensors{torch::empty({4}).add_(in[0])}; };

  CHECK_THAT(message_of(gap, {torch::ones({4})}), contains("the program returns memory"));
  CHECK_THAT(message_of(accumulate, {torch::ones({4})}), contains("aten.add_.Tensor reads memory"));
}

TEST_CASE("what memory has grown by is uninitialised, and what was there is not",
          "[capture][initialization]") {
  const auto grown = [](const Tensors& in) {
    const torch::Tensor all = in[0] * 2;
    all.resize_({6});
    return Tensors{all + 1};
  };
  const auto filled = [](const Tensors& in) {
    const torch::Tensor all = in[0] * 2;
    all.resize_({6});
    all.slice(0, 4).copy_(in[0].slice(0, 0, 2));
    return Tensors{all + 1};
  };
  const auto same = [](const Tensors& in) {
    const torch::Tensor all = in[0] * 2;
    all.resize_({2, 2});
    return Tensors{all + 1};
  };
  const torch::Tensor x = torch::randn({4});

  CHECK_THAT(message_of(grown, {x}), contains("aten.add.Scalar reads memory that aten.resize_"));
  for (const TensorFunction& program : {TensorFunction(filled), TensorFunction(same)}) {
    const Recording recording = record(program, {torch::randn({4})});
    CHECK(torch::equal(run_again(recording, {x})[0], program({x})[0]));
  }
}

TEST_CASE("the values of torch::tensor are a constant of the program, and its memory is not",
          "[capture][initialization]") {
  const auto scale = [](const Tensors& in) {
    const torch::Tensor factors = torch::tensor(std::vector<float>{1, 2, 3});
    factors.mul_(in[0]);
    return Tensors{factors + torch::tensor({4.F, 5.F, 6.F})};
  };
  const Recording recording = record(scale, {torch::ones({3})});
  const torch::Tensor x = torch::randn({3});

  const torch::Tensor first = run_again(recording, {x})[0];
  const torch::Tensor second = run_again(recording, {x})[0];

  CHECK(torch::equal(first, scale({x})[0]));
  CHECK(torch::equal(second, first));
}

TEST_CASE("what is written may be read where the rest of its memory is not",
          "[capture][initialization]") {
  const auto half = [](std::int64_t read_from) {
    return [read_from](const Tensors& in) {
      const torch::Tensor out = torch::empty({8});
      out.slice(0, 4).copy_(in[0]);
      return Tensors{out.slice(0, read_from, read_from + 4) * 2};
    };
  };
  const auto before_growth = [](const Tensors& in) {
    const torch::Tensor all = in[0] * 2;
    all.resize_({6});
    return Tensors{all.slice(0, 0, 4) + 1};
  };
  const torch::Tensor x = torch::randn({4});

  CHECK_THAT(message_of(half(0), {x}), contains("reads memory that aten.empty"));
  CHECK_THAT(message_of(half(3), {x}), contains("reads memory that aten.empty"));
  for (const TensorFunction& program : {TensorFunction(half(4)), TensorFunction(before_growth)}) {
    const Recording recording = record(program, {torch::randn({4})});
    CHECK(torch::equal(run_again(recording, {x})[0], program({x})[0]));
  }
}

}  // namespace
}  // namespace kiln::capture
