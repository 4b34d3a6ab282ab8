// What is said when something cannot be compiled, takes long, or is compiled again.

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "kiln/capture/record.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/standard_error.hpp"
#include "kiln/testing/uncached.hpp"
#include "slow_notice.hpp"

namespace kiln {
namespace {

using testing::contains;
using testing::standard_error_of;

// Before anything is logged, when it is read.
[[maybe_unused]] const int kLogged = ::setenv("KILN_LOG", "warning,kiln=info", /*overwrite=*/1);

TEST_CASE("a value that is read is refused in the user's words, with two ways out",
          "[jit][messages]") {
  const auto fast = compile(
      [](const torch::Tensor& x) {
        const capture::SourceScope here;
        const capture::ModuleScope module("encoder.gate");
        return x.sum().item<float>() > 0 ? x + 1 : x - 1;
      },
      uncached());

  CHECK_THROWS_WITH(fast(torch::ones({3})),
                    contains("reads a tensor's value with item()") &&
                        contains("at messages_test.cpp:") && contains("in encoder.gate") &&
                        contains("torch::where") && contains("pass it as an argument"));
}

TEST_CASE("a shape that depends on data is refused with the place, and with two ways out",
          "[jit][messages]") {
  const auto fast = compile(
      [](const torch::Tensor& x) {
        const capture::SourceScope here;
        const capture::ModuleScope module("encoder.gate");
        return x.masked_select(x > 0).sum();
      },
      uncached());

  CHECK_THROWS_WITH(fast(torch::ones({3})),
                    contains("aten.masked_select.default has a data-dependent output shape") &&
                        contains("torch::where") && contains("pass its result") &&
                        contains("called at messages_test.cpp:") && contains("in encoder.gate"));
}

TEST_CASE("a value that libtorch's own backward reads is refused with the operator's name",
          "[jit][messages]") {
  const auto fast = compile(
      [](const torch::Tensor& x) {
        const torch::Tensor first =
            torch::autograd::grad({torch::linalg_det(x)}, {x}, {}, true, /*create_graph=*/true)[0];
        return first.square().sum();
      },
      uncached());

  CHECK_THROWS_WITH(fast(torch::randn({3, 3}, torch::requires_grad())),
                    contains("in libtorch's own") && contains("out of what is differentiated"));
}

TEST_CASE("AD-121 double backward says to take the gradient inside the function",
          "[jit][messages]") {
  const auto fast = compile([](const torch::Tensor& x) { return x.sin(); }, uncached());
  const torch::Tensor x = torch::randn({3}, torch::requires_grad());
  const torch::Tensor first = torch::autograd::grad(
      {fast(x).sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];

  CHECK_THROWS_WITH(first.sum().backward(),
                    contains("double backward") && contains("torch::autograd::grad") &&
                        contains("inside the function"));
}

TEST_CASE("the way out of double backward works", "[jit][messages]") {
  const auto penalty = [](const torch::Tensor& x) {
    return torch::autograd::grad({x.sin().sum()}, {x}, {}, true, /*create_graph=*/true)[0]
        .square()
        .sum();
  };
  const auto fast = compile(penalty, uncached());
  const auto gradient = [](const auto& function) {
    torch::manual_seed(2);
    const torch::Tensor x = torch::randn({3}, torch::requires_grad());
    function(x).backward();
    return x.grad();
  };

  CHECK(torch::allclose(gradient(fast), gradient(penalty), 1e-4, 1e-5));
}

TEST_CASE("a function that is compiled again says which guard failed", "[jit][messages]") {
  torch::nn::Linear linear(3, 3);
  const auto fast = compile(
      linear,
      [linear](const torch::Tensor& x, int times) mutable { return linear(x) * times; },
      uncached());
  const torch::Tensor x = torch::randn({2, 3});
  fast(x, 1);
  const auto reason = [&] { return fast.report().details.back().reason; };
  CHECK(reason().empty());

  SECTION("the shape of an input") {
    CHECK_THAT(standard_error_of([&] { fast(torch::randn({5, 3}), 1); }),
               contains("recompiling, version 2: input 0, dimension 0: 5, compiled for 2"));
    CHECK(reason() == "input 0, dimension 0: 5, compiled for 2");
  }
  SECTION("grad mode") {
    const torch::NoGradGuard no_grad;
    CHECK_THAT(standard_error_of([&] { fast(x, 1); }),
               contains("the call is with grad mode off, the version before with grad mode on"));
    CHECK_THAT(reason(), contains("grad mode off"));
  }
  SECTION("train() or eval()") {
    linear->eval();
    CHECK_THAT(standard_error_of([&] { fast(x, 1); }), contains("train() or eval()"));
  }
  SECTION("an integer that comes again") {
    CHECK(standard_error_of([&] { fast(x, 2); }).empty());
    CHECK_THAT(standard_error_of([&] { fast(x, 2); }),
               contains("recompiling, version 2: integer 0: 2, compiled for 1"));
    CHECK(reason() == "integer 0: 2, compiled for 1");
  }
  SECTION("a number that cannot be a size") {
    CHECK_THAT(
        standard_error_of([&] { fast(x, -2); }),
        contains("version 2: non-tensor arguments differ: 'tensor -2 ' now, 'tensor integer '"));
    CHECK_THAT(reason(), contains("'tensor -2 ' now"));
  }
}

TEST_CASE("how tensors share memory is a reason to compile again", "[jit][messages]") {
  const auto fast = compile(
      [](const torch::Tensor& x, const torch::Tensor& y) { return x.add_(1) + y; }, uncached());
  fast(torch::ones({3}), torch::ones({3}));
  const torch::Tensor twice = torch::ones({3});

  CHECK_THAT(standard_error_of([&] { fast(twice, twice); }), contains("share memory"));
}

TEST_CASE("a refusal past max_versions says what is new", "[jit][messages]") {
  CompileOptions options = uncached();
  options.max_versions = 1;
  options.error_at_max_versions = true;
  const auto fast = compile([](const torch::Tensor& x) { return x + 1; }, options);
  fast(torch::ones({3}));

  CHECK_THROWS_WITH(fast(torch::ones({4})), contains("input 0, dimension 0: 4, compiled for 3"));
  CHECK_THROWS_WITH(fast(torch::ones({3}, torch::kDouble)),
                    contains("input 0: Double [3]") && contains("compiled for Float [3]"));
  CHECK_THROWS_WITH(fast(torch::ones({6}).slice(0, 0, 6, 2)),
                    contains("input 0, stride of dimension 0: 2, compiled for 1"));
}

TEST_CASE("past max_versions one warning has the reason of each recompile", "[jit][messages]") {
  CompileOptions options = uncached();
  options.max_versions = 3;
  const auto fast = compile([](const torch::Tensor& x, int n) { return x + n; }, options);
  const torch::Tensor x = torch::ones({3});
  const std::string before = standard_error_of([&] {
    fast(x, 1);
    fast(x.to(torch::kDouble), 1);
    fast(x, -2);
  });
  CHECK_THAT(before, !contains("recompile limit"));

  const std::string said = standard_error_of([&] { fast(x.to(torch::kHalf), 1); });
  CHECK_THAT(said, contains("kiln: warning: recompile limit reached (max_versions = 3)"));
  CHECK_THAT(said, contains("input 0: Double [3]"));
  CHECK_THAT(said, contains("'tensor -2 ' now"));
  CHECK_THAT(said, contains("Not compiled for: input 0: Half [3]"));

  const std::string after = standard_error_of([&] {
    CHECK(torch::equal(fast(x.to(torch::kHalf), 1), x.to(torch::kHalf) + 1));
    CHECK(torch::equal(fast(x, 3), x + 3));
  });
  CHECK_THAT(after, !contains("warning"));
}

TEST_CASE("a trace of more than a second says so, a short one says nothing", "[jit][messages]") {
  const auto said = [](std::chrono::milliseconds pause) {
    const auto fast = compile(
        [pause](const torch::Tensor& x) {
          std::this_thread::sleep_for(pause);
          return x + 1;
        },
        uncached());
    return standard_error_of([&] { fast(torch::ones({3})); });
  };

  CHECK_THAT(said(std::chrono::milliseconds(1200)),
             contains("progress: warning: tracing a function"));
  CHECK_THAT(said(std::chrono::milliseconds(0)), !contains("tracing"));
}

TEST_CASE("stages and origins have names", "[jit][messages]") {
  std::string names;
  for (const Stage stage :
       {Stage::kTrace, Stage::kSchedule, Stage::kKernels, Stage::kLink, Stage::kLoad}) {
    names += std::string(to_string(stage)) + " ";
  }
  CHECK(names == "trace schedule kernels link load ");
  CHECK(to_string(Origin::kTraced) == "traced");
  CHECK(to_string(Origin::kCachedTrace) == "trace found in the cache");
  CHECK(to_string(Origin::kCached) == "found in the cache");
  CHECK(to_string(Origin::kEager) == "eager");
}

TEST_CASE("a task that takes long says how far it is, once", "[jit][messages]") {
  const std::string said = standard_error_of([] {
    SlowNotice notice("compiling", std::chrono::milliseconds(1));
    notice.set_stage({.stage = Stage::kKernels, .done = 3, .total = 12});
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });

  CHECK_THAT(said, contains("compiling takes longer than 1 ms (now: kernels, 3 of 12 done)"));
  CHECK_THAT(said, contains("KILN_LOG=warning,progress=off"));
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
}

}  // namespace
}  // namespace kiln
