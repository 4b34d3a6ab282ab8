// What a training step costs in C++, eagerly and compiled, the two taking turns; and what the
// wrappers of a compiled function cost when there is nothing to compute. Prints JSON.
//
//   kiln-training-bench SECONDS wall|cpu

#include <ATen/Functions.h>
#include <torch/csrc/autograd/generated/variable_factories.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string_view>
#include <vector>

#include "kiln/autograd_dispatch/dispatch.hpp"
#include "kiln/kiln.hpp"
#include "kiln/partitioner/partition.hpp"

namespace {

using Tensors = std::vector<at::Tensor>;

constexpr int kSlices = 10;

// The 4-layer perceptron of the other benchmarks, with a loss.
struct Network {
  Network() {
    torch::manual_seed(0);
    for (int i = 0; i < 4; ++i) {
      layers->push_back(torch::nn::Linear(256, 256));
      layers->push_back(torch::nn::ReLU());
    }
  }
  Tensors loss(const Tensors& in) { return {layers->forward(in[0]).square().mean()}; }

  torch::nn::Sequential layers;
};

// Counts the time that passes, or, on a busy machine, the time that this process works.
class Stopwatch {
 public:
  explicit Stopwatch(bool cpu) : clock_(cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC) {}

  [[nodiscard]] double microseconds() const {
    timespec now{};
    clock_gettime(clock_, &now);
    return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
  }

 private:
  clockid_t clock_;
};

// Microseconds a call, in one slice of time.
double time_slice(const std::function<void()>& call, const Stopwatch& watch, double seconds) {
  const double start = watch.microseconds();
  double now = start;
  int calls = 0;
  while (now < start + 1e6 * seconds) {
    for (int i = 0; i < 10; ++i) {
      call();
    }
    calls += 10;
    now = watch.microseconds();
  }
  return (now - start) / calls;
}

// The best slice of each; they take turns, so that a busy moment strikes all.
std::vector<double> measure(const std::vector<std::function<void()>>& calls,
                            const Stopwatch& watch,
                            double seconds) {
  std::vector<double> best(calls.size(), 1e30);
  for (int slice = -1; slice < kSlices; ++slice) {  // The first only warms up.
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const double taken = time_slice(calls[i], watch, seconds / kSlices);
      if (slice >= 0) {
        best[i] = std::min(best[i], taken);
      }
    }
  }
  return best;
}

std::function<void()> step(Network& network, std::function<Tensors(const Tensors&)> loss) {
  return [&network, loss = std::move(loss), x = at::ones({1, 256})] {
    network.layers->zero_grad();
    loss({x})[0].backward();
  };
}

// A compiled function whose graphs return what they once computed.
kiln::autograd_dispatch::CompiledFunction empty_function(const Tensors& arguments) {
  using namespace kiln::autograd_dispatch;
  const auto compiler = [](const kiln::ir::Graph& graph) -> CompiledGraph {
    return [run = interpret(graph), known = Tensors()](Tensors inputs) mutable {
      if (known.empty()) {
        known = run(std::move(inputs));
      }
      return known;
    };
  };
  const auto partition = [](const kiln::ir::Graph& joint) {
    kiln::partitioner::Partition parts = kiln::partitioner::default_partition(joint);
    return std::pair(std::move(parts.forward), std::move(parts.backward));
  };
  return dispatch(
      trace_joint([](const Tensors& in) { return Tensors{in[0].add(in[1])}; }, arguments),
      {.forward = compiler, .backward = compiler, .inference = compiler, .partition = partition});
}

}  // namespace

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 1;
  const Stopwatch watch(count > 2 && std::string_view(arguments[2]) == "cpu");
  Network eager, compiled, trusted;
  kiln::CompileOptions options;
  options.use_cache = false;
  const auto compile_loss = [&](Network& network) {
    return kiln::compile(
        network.layers.ptr(), [&](const Tensors& in) { return network.loss(in); }, options);
  };
  const kiln::Function loss = compile_loss(compiled);
  options.retrace = kiln::Retrace::kNever;
  const kiln::Function never_compared = compile_loss(trusted);

  const Tensors plain = {at::ones({4}), at::ones({4})};
  const Tensors training = {at::ones({4}).set_requires_grad(true), at::ones({4})};
  const auto inference_only = empty_function(plain);
  const auto with_node = empty_function(training);
  const kiln::autograd_dispatch::CompiledGraph nothing =
      [known = Tensors{at::ones({4})}](const Tensors&) { return known; };

  const std::vector<double> steps =
      measure({step(eager, [&](const Tensors& in) { return eager.loss(in); }),
               step(compiled, loss),
               step(trusted, never_compared)},
              watch,
              seconds);
  const kiln::CompileReport report = loss.report();
  const double called_ms = 1e3 * seconds * (kSlices + 1) / kSlices;
  const std::vector<double> wrappers = measure({[&] { (void)nothing(plain); },
                                                [&] { (void)inference_only(plain); },
                                                [&] { (void)with_node(training); }},
                                               watch,
                                               seconds);
  std::printf(
      "{\"eager_us\": %.2f, \"kiln_us\": %.2f, \"never_compared_us\": %.2f, \"retraces\": %d, "
      "\"retrace_share\": %.5f, \"wrappers_us\": %.3f, \"wrappers_training_us\": %.3f}\n",
      steps[0],
      steps[1],
      steps[2],
      report.retraces,
      report.retrace_ms / called_ms,
      wrappers[1] - wrappers[0],
      wrappers[2] - wrappers[0]);
  return 0;
}
