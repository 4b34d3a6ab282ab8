// When compiled functions are traced again, what that costs and leaves alone, and that programs
// which stay the same are not reported.

#include <torch/torch.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kiln/base/temporary_directory.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/standard_error.hpp"
#include "retrace_schedule.hpp"
#include "retracing.hpp"

namespace kiln {
namespace {

using testing::contains;
using testing::is_close;
using testing::prompt;
using testing::standard_error_of;
using testing::suspicious;

TEST_CASE("nothing is noticed where nobody looks", "[jit][retrace]") {
  double scale = 1;
  int runs = 0;
  CompileOptions options = prompt(OnChange::kThrow);
  options.retrace = Retrace::kNever;
  const Function fast = compile(
      [&](const Tensors& in) {
        ++runs;
        return Tensors{in[0] * scale};
      },
      options);
  const torch::Tensor x = torch::randn({3});
  fast({x});
  scale = 2;
  for (int i = 0; i < 20; ++i) {
    CHECK(is_close(fast({x})[0], x));
  }
  CHECK(runs == 1);
  CHECK(fast.report().retraces == 0);
}

TEST_CASE("traces come at calls 2, 4, 8, …, or at all", "[jit][retrace]") {
  const auto retraces_after = [](CompileOptions options, int calls) {
    const Function fast = compile([](const Tensors& in) { return Tensors{in[0].sin()}; }, options);
    for (int i = 0; i < calls; ++i) {
      fast({torch::ones({3})});
    }
    return fast.report().retraces;
  };
  CompileOptions options = prompt();
  CHECK(retraces_after(options, 1) == 0);
  CHECK(retraces_after(options, 2) == 1);
  CHECK(retraces_after(options, 3) == 1);
  CHECK(retraces_after(options, 20) == 4);
  options.retrace = Retrace::kAlways;
  CHECK(retraces_after(options, 20) == 19);
  // Which calls that take no time never pay for.
  options.retrace = Retrace::kDoubling;
  options.retrace_budget = 1e-9;
  CHECK(retraces_after(options, 300) == 0);
}

TEST_CASE("traces take no more than their share of the time of calls", "[jit][retrace]") {
  constexpr double kTraceMs = 10, kCompileMs = 100, kCallMs = 10;
  for (const double budget : {0.01, 0.1}) {
    RetraceSchedule schedule(Retrace::kDoubling, budget, kTraceMs, kCompileMs);
    std::vector<int> traced_at;
    int measured = 0;
    for (int call = 1; call <= 4096; ++call) {
      if (!schedule.count_call()) {
        continue;
      }
      if (schedule.is_within_budget()) {
        traced_at.push_back(call);
        schedule.note_trace(kTraceMs);
        const double spent = kCompileMs + call * kCallMs;
        CHECK(static_cast<double>(traced_at.size()) * kTraceMs <= budget * spent);
      } else {
        ++measured;
        schedule.note_call(kCallMs);
      }
    }
    REQUIRE(traced_at.size() >= 3);
    CHECK(traced_at[0] == (budget == 0.01 ? 90 : 2));  // When calls have paid for it.
    CHECK(traced_at.back() >= 2048);
    CHECK(measured < 40);
  }
}

TEST_CASE("threads that call a function while it is traced again get right results",
          "[jit][retrace]") {
  std::atomic<double> scale = 2;
  CompileOptions options = prompt();
  options.retrace = Retrace::kAlways;
  const Function fast =
      compile([&](const Tensors& in) { return Tensors{in[0] * scale.load()}; }, options);
  const torch::Tensor x = torch::randn({3});
  fast({x});
  const auto wrong_calls = [&](double expected) {
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int call = 0; call < 25; ++call) {
          wrong += is_close(fast({x})[0], x * expected) ? 0 : 1;
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    return wrong.load();
  };
  CHECK(wrong_calls(2) == 0);
  CHECK(fast.report().changes.empty());
  scale = 3;
  fast({x});
  CHECK(wrong_calls(3) == 0);
  CHECK(fast.report().changes.size() == 1);
}

TEST_CASE("calls ahead of which a function was prepared count from the first", "[jit][retrace]") {
  double scale = 1;
  const Function fast =
      compile([&](const Tensors& in) { return Tensors{in[0] * scale}; }, prompt(OnChange::kThrow));
  const torch::Tensor x = torch::randn({3});
  fast.prepare({x});
  fast({x});
  CHECK(fast.report().retraces == 0);
  fast({x});
  CHECK(fast.report().retraces == 1);
}

TEST_CASE("a trace that fails is told once and leaves the call alone", "[jit][retrace]") {
  bool fails = false;
  const Function fast = compile(
      [&](const Tensors& in) {
        if (fails) {
          throw std::runtime_error("the program gives up");
        }
        return Tensors{in[0] * 2};
      },
      prompt());
  const torch::Tensor x = torch::randn({3});
  fast({x});
  fails = true;

  const std::string first = standard_error_of([&] { CHECK(is_close(fast({x})[0], x * 2)); });
  const std::string later = standard_error_of([&] {
    for (int i = 0; i < 10; ++i) {
      CHECK(is_close(fast({x})[0], x * 2));
    }
  });

  CHECK_THAT(first, contains("cannot be traced again") && contains("the program gives up"));
  CHECK_THAT(later, !contains("cannot be traced again"));
  CHECK(fast.report().changes.empty());
}

TEST_CASE("a program that stays the same is never reported", "[jit][retrace]") {
  const bool trains = GENERATE(true, false);
  const at::AutoGradMode mode(trains);
  torch::nn::Sequential net(torch::nn::Linear(4, 8),
                            torch::nn::BatchNorm1d(8),
                            torch::nn::ReLU(),
                            torch::nn::Dropout(0.3),
                            torch::nn::Linear(8, 2));
  const torch::Tensor mask = torch::tensor({1.0F, 0.0F});
  const TensorFunction function = [=](const Tensors& in) mutable {
    const torch::Tensor y = net->forward(in[0]) * mask + torch::tensor({0.5F, 2.0F});
    return Tensors{y, torch::randn({3}), y.slice(0, 0, 2) + 1, in[0]};
  };
  const Function fast = compile(function, suspicious());
  for (const std::int64_t rows : {5, 5, 6, 6, 9, 5, 3, 12, 40}) {
    const torch::Tensor x = torch::randn({rows, 4});
    torch::manual_seed(rows);
    const auto buffers = net->buffers();
    std::vector<torch::Tensor> before;
    for (const torch::Tensor& buffer : buffers) {
      before.push_back(buffer.clone());
    }
    const Tensors found = fast({x});
    std::vector<torch::Tensor> after;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      after.push_back(buffers[i].clone());
      const at::NoGradGuard no_grad;
      buffers[i].copy_(before[i]);
    }
    torch::manual_seed(rows);
    const Tensors expected = function({x});
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      INFO("output " << i << " with " << rows << " rows");
      CHECK(is_close(found[i], expected[i]));
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      CHECK(torch::allclose(after[i].to(torch::kFloat), buffers[i].to(torch::kFloat)));
    }
  }
  CHECK(fast.report().retraces >= 4);
  CHECK(fast.report().changes.empty());
}

TEST_CASE("a trace leaves gradients, generators and the module as they are", "[jit][retrace]") {
  torch::nn::Linear layer(3, 2);
  const auto fast = compile(layer, suspicious());
  const torch::Tensor x = torch::randn({4, 3});
  for (int i = 0; i < 4; ++i) {
    layer->zero_grad();
    const torch::Tensor generator = at::globalContext().defaultGenerator(at::kCPU).get_state();
    const auto version = layer->weight._version();
    fast(x).square().sum().backward();
    CHECK(torch::equal(generator, at::globalContext().defaultGenerator(at::kCPU).get_state()));
    CHECK(layer->weight._version() == version);
    const torch::Tensor found = layer->weight.grad().clone();
    layer->zero_grad();
    layer->forward(x).square().sum().backward();
    CHECK(is_close(found, layer->weight.grad()));
  }
  CHECK(fast.report().retraces == 3);
}

TEST_CASE("a version for a range of sizes is compared at the sizes of its first call",
          "[jit][retrace]") {
  double scale = 2;
  const TensorFunction function = [&](const Tensors& in) {
    return Tensors{(in[0] * scale).softmax(0), in[0].index_select(0, in[1])};
  };
  const bool trains = GENERATE(true, false);
  const Function fast = compile(function, suspicious());
  const auto inputs = [&](std::int64_t rows) {
    return Tensors{torch::randn({rows, 4}).set_requires_grad(trains),
                   torch::tensor({rows - 1, std::int64_t{0}})};
  };
  for (const std::int64_t rows : {5, 6, 7, 1, 2, 40}) {
    const Tensors given = inputs(rows);
    const Tensors found = fast(given), expected = function(given);
    CHECK(is_close(found[0], expected[0]));
    CHECK(torch::equal(found[1], expected[1]));
  }
  CHECK(fast.report().details.back().symbols.size() == 1);
  CHECK(fast.report().retraces >= 3);
  scale = 3;
  CHECK_THROWS_WITH(fast(inputs(9)), contains("had 2.0, now has 3.0"));
}

TEST_CASE("arguments that share memory or have a history now are not a change", "[jit][retrace]") {
  const Function fast = compile(
      [](const Tensors& in) { return Tensors{in[0] * 2 + in[1], in[1].view({-1})}; }, suspicious());
  const torch::Tensor x = torch::randn({2, 2}, torch::requires_grad());
  const torch::Tensor y = torch::randn({2, 2}, torch::requires_grad());
  const Tensors all[] = {{x, y}, {x, x}, {x.exp(), y}, {x, y.t().t()}, {x, y}};
  for (const Tensors& inputs : all) {
    const Tensors found = fast(inputs);
    CHECK(is_close(found[0], inputs[0] * 2 + inputs[1]));
    CHECK(is_close(found[1], inputs[1].view({-1})));
  }
  CHECK(fast.report().versions == 1);
  CHECK(fast.report().retraces == 4);

  const Function writes =
      compile([](const Tensors& in) { return Tensors{in[0].mul_(2) + in[1]}; }, suspicious());
  for (int i = 0; i < 3; ++i) {
    const torch::Tensor both = torch::ones({3});
    CHECK(is_close(writes({both, both})[0], torch::full({3}, 4.0)));
  }
  CHECK(writes.report().retraces == 2);
}

TEST_CASE("arguments that begin elsewhere in their storage are not a change", "[jit][retrace]") {
  torch::nn::Linear layer(4, 4);
  const Function fast = compile(
      layer.ptr(),
      [layer](const Tensors& in) mutable { return Tensors{layer(in[0]).sum() + in[0][1].sum()}; },
      suspicious());
  const torch::Tensor data = torch::randn({20, 4});
  for (int i = 2; i < 6; ++i) {
    const torch::Tensor batch = data.narrow(0, 3 * i, 2);
    CHECK(is_close(fast({batch})[0], layer(batch).sum() + batch[1].sum()));
  }
  CHECK(fast.report().versions == 1);
  CHECK(fast.report().retraces == 3);

  const Function writes =
      compile([](const Tensors& in) { return Tensors{in[0].mul_(2) + in[1]}; }, suspicious());
  for (int i = 0; i < 3; ++i) {
    const torch::Tensor both = torch::ones({20}).narrow(0, i, 6);
    CHECK(is_close(writes({both.narrow(0, 0, 3), both.narrow(0, 3, 3)})[0], torch::full({3}, 3.0)));
  }
  CHECK(writes.report().versions == 1);
}

TEST_CASE("what equal() says of other data is not a change of the program", "[jit][retrace]") {
  const Function fast = compile(
      [](const Tensors& in) { return Tensors{in[0].equal(in[1]) ? in[0] * 2 : in[0] - in[1]}; },
      suspicious());
  const torch::Tensor x = torch::ones({3}), y = torch::zeros({3});
  CHECK(is_close(fast({x, y})[0], x));
  CHECK(is_close(fast({x, y})[0], x));
  CHECK_THROWS_WITH(fast({x, x.clone()}),
                    contains("(at::equal)") || contains("on standard error only"));
  CHECK(fast.report().changes.empty());
}

TEST_CASE("a function that is found by its identity is not traced again", "[jit][retrace]") {
  const TemporaryDirectory directory;
  CompileOptions options = suspicious();
  options.use_cache = true;
  options.cache_directory = directory.path();
  options.identity = "changed_program_test 1";
  int runs = 0;
  const TensorFunction function = [&](const Tensors& in) {
    ++runs;
    return Tensors{in[0] * 3};
  };
  const at::NoGradGuard no_grad;
  const torch::Tensor x = torch::randn({3});
  const Function cold = compile(function, options);
  cold({x});
  cold({x});
  CHECK(cold.report().retraces == 1);
  runs = 0;

  const Function warm = compile(function, options);
  for (int i = 0; i < 4; ++i) {
    CHECK(is_close(warm({x})[0], x * 3));
  }

  CHECK(warm.report().details[0].origin == Origin::kCached);
  CHECK(warm.report().retraces == 0);
  CHECK(runs == 0);
}

TEST_CASE("a version that is compiled anew is not the one with the function's identity",
          "[jit][retrace]") {
  const TemporaryDirectory directory;
  CompileOptions options = prompt(OnChange::kRecompile);
  options.use_cache = true;
  options.cache_directory = directory.path();
  options.identity = "changed_program_test 2";
  double scale = 2;
  const Function fast = compile([&](const Tensors& in) { return Tensors{in[0] * scale}; }, options);
  const at::NoGradGuard no_grad;
  const torch::Tensor x = torch::randn({3});
  fast({x});
  scale = 3;
  CHECK(is_close(fast({x})[0], x * 3));
  CHECK(is_close(fast({x})[0], x * 3));
}

TEST_CASE("the report tells the captured tensors and constants of a version", "[jit][retrace]") {
  torch::nn::Linear layer(3, 2);
  const torch::Tensor offset = torch::ones({2});
  const auto fast = compile(
      layer,
      [=](const torch::Tensor& x) mutable {
        const capture::SourceScope here("train.cpp:7");
        return layer->forward(x) * 0.5 + offset;
      },
      prompt());
  fast(torch::randn({4, 3}));

  const VersionReport report = fast.report().details.at(0);
  REQUIRE(report.captured.size() == 3);
  CHECK_THAT(report.captured[0] + report.captured[1],
             contains("'weight', f32[2, 3]") && contains("'bias', f32[2]"));
  CHECK_THAT(report.captured[2], contains("f32[2]") && contains("aten.add at train.cpp:7"));
  REQUIRE(report.constants.size() == 1);
  CHECK(report.constants[0] == "aten.mul at train.cpp:7: 0.5");
}

}  // namespace
}  // namespace kiln
