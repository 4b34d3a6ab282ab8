// What a compile leaves of the program's own state: hooks, members, modes, effects.

#include <torch/library.h>
#include <torch/torch.h>

#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using testing::contains;

int logged = 0;

TORCH_LIBRARY(kiln_program_state_test, library) {
  library.def("log(Tensor x) -> ()");
}
TORCH_LIBRARY_IMPL(kiln_program_state_test, CompositeExplicitAutograd, library) {
  library.impl("log", [](const at::Tensor& /*x*/) { ++logged; });
}
void call_log(const at::Tensor& tensor) {
  c10::Dispatcher::singleton()
      .findSchemaOrThrow("kiln_program_state_test::log", "")
      .typed<void(const at::Tensor&)>()
      .call(tensor);
}

TEST_CASE("a hook on a parameter's gradient runs once for each backward", "[jit][state]") {
  torch::nn::Linear layer(3, 2);
  int runs = 0;
  layer->weight.register_hook([&](const torch::Tensor& gradient) {
    ++runs;
    return gradient * 2;
  });
  const auto fast = compile(layer, uncached());
  const torch::Tensor x = torch::randn({5, 3});
  layer->forward(x).sum().backward();
  const torch::Tensor expected = layer->weight.grad().clone();
  layer->zero_grad();
  runs = 0;

  fast(x).sum().backward();

  CHECK(torch::allclose(layer->weight.grad(), expected));
  CHECK(runs == 1);
  const std::vector<VersionReport> details = fast.report().details;
  REQUIRE(details.size() == 1);
  REQUIRE(details[0].hooks.size() == 1);
  CHECK_THAT(details[0].hooks[0], contains("captured tensor 0"));
}

TEST_CASE("a hook on an argument's gradient runs once", "[jit][state]") {
  const Function fast = compile([](const Tensors& in) { return Tensors{in[0].sin()}; }, uncached());
  const torch::Tensor x = torch::randn({3}, torch::requires_grad());
  int runs = 0;
  x.register_hook([&](const torch::Tensor& gradient) {
    ++runs;
    return gradient * 3;
  });

  fast({x})[0].sum().backward();

  CHECK(torch::allclose(x.grad(), x.detach().cos() * 3));
  CHECK(runs == 1);
}

TEST_CASE("a function is compiled and trains in anomaly mode", "[jit][state]") {
  const torch::autograd::DetectAnomalyGuard anomaly_mode;
  const Function fast = compile([](const Tensors& in) { return Tensors{in[0].exp()}; }, uncached());
  const torch::Tensor x = torch::randn({3}, torch::requires_grad());

  fast({x})[0].sum().backward();

  CHECK(torch::allclose(x.grad(), x.detach().exp()));
  CHECK(torch::autograd::AnomalyMode::is_enabled());
}

struct RunningAverage : torch::nn::Module {
  torch::Tensor mean = torch::zeros({3});
  torch::Tensor forward(const torch::Tensor& x) {
    mean = mean * 0.5 + x.mean(0) * 0.5;
    return x - mean;
  }
};

TEST_CASE("a forward that assigns a member is refused by name and leaves numbers in it",
          "[jit][state]") {
  const auto module = std::make_shared<RunningAverage>();
  const Function fast = compile(
      module, [module](const Tensors& in) { return Tensors{module->forward(in[0])}; }, uncached());
  const torch::Tensor x = torch::randn({4, 3}, torch::requires_grad());

  std::string message;
  try {
    fast({x});
  } catch (const Error& error) {
    message = error.what();
  }

  CHECK_THAT(message, contains("keeps the result of aten.add.Tensor"));
  CHECK_THAT(message, contains("write it in place"));
  CHECK(torch::allclose(module->mean, x.detach().mean(0) * 0.5));
  CHECK_NOTHROW(module->forward(x).sum().backward());
}

TEST_CASE("a trace that fails leaves no tensor without numbers in the program", "[jit][state]") {
  torch::Tensor kept;
  const Function fast = compile(
      [&](const Tensors& in) -> Tensors {
        kept = in[0] * 2;
        throw std::runtime_error("the program gives up");
      },
      uncached());
  const torch::Tensor x = torch::randn({3}, torch::requires_grad());

  CHECK_THROWS_WITH(fast({x}), contains("the program gives up"));

  CHECK(torch::equal(kept.detach(), x.detach() * 2));
}

TEST_CASE("a module may be cloned inside of a function that trains", "[jit][state]") {
  torch::nn::Linear layer(3, 3);
  const auto with_clone = [&](const Tensors& in) {
    const auto copy = std::dynamic_pointer_cast<torch::nn::LinearImpl>(layer->clone());
    return Tensors{copy->forward(layer->forward(in[0]))};
  };
  const Function fast = compile(with_clone, uncached());
  const torch::Tensor x = torch::randn({2, 3}, torch::requires_grad());

  const torch::Tensor y = fast({x})[0];

  CHECK(torch::allclose(y, with_clone({x})[0], 1e-4, 1e-5));
}

TEST_CASE("EX-51 effects of a compiled function happen once for each call", "[jit][state]") {
  const auto program = [](const Tensors& in) {
    call_log(in[0]);
    const at::Tensor twice = in[0] * 2;
    call_log(twice);
    return Tensors{twice.sin()};
  };
  const bool trains = GENERATE(false, true);
  const Function fast = compile(program, uncached());
  const torch::Tensor x = torch::randn({3}, torch::requires_grad(trains));
  logged = 0;

  for (int call = 1; call <= 3; ++call) {
    const torch::Tensor y = fast({x})[0];
    CHECK(logged == 2 * call);
    CHECK(torch::allclose(y.detach(), (x.detach() * 2).sin()));
  }
  if (trains) {
    fast({x})[0].sum().backward();
    CHECK(logged == 8);
  }
}

TEST_CASE("a pooled convolution of sequences is computed, not left uninitialised", "[jit][state]") {
  torch::nn::Sequential net(torch::nn::Conv1d(3, 8, 5), torch::nn::ReLU(), torch::nn::MaxPool1d(2));
  const at::NoGradGuard no_grad;
  const auto fast = compile(net, uncached());
  fast(torch::randn({2, 3, 40}));
  const torch::Tensor x = torch::randn({2, 3, 40});

  const torch::Tensor y = fast(x);

  CHECK(torch::allclose(y, net->forward(x), 1e-4, 1e-5));
}

}  // namespace
}  // namespace kiln
