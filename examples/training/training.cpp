// Trains a GPT-2-like language model and a ResNet with SGD and with Adam, from the same start:
// eagerly, and with a loss that kiln compiled. Prints both losses, and fails if they part.
//
// Rounding differs between the two, and training magnifies it. How much shows a third run, eager
// too, whose weights are one unit in the last place larger: the compiled losses may part from
// eager's as far as those do, give or take.
//
//   training [STEPS]        200 steps, unless told otherwise

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kiln/kiln.hpp"
#include "models.hpp"

namespace {

using Tensors = std::vector<torch::Tensor>;
using Loss = std::function<Tensors(const Tensors&)>;
using MakeOptimizer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

/// How the loss of a run is computed.
enum class How { kEager, kNudged, kCompiled };

constexpr double kOneUnit = 1.2e-7;  // In the last place, relatively.
constexpr double kTolerance = 1e-4;  // Always allowed.
constexpr double kMoreThanRounding = 4;

// Text in which a word follows from the one before, most of the time.
Tensors some_text() {
  constexpr std::int64_t kBatch = 8;
  constexpr std::int64_t kWords = training::LanguageModelImpl::kWords;
  constexpr std::int64_t kLength = training::LanguageModelImpl::kLength;
  torch::Tensor words = torch::randint(kWords, {kBatch, kLength + 1}, torch::kLong);
  for (std::int64_t i = 1; i <= kLength; ++i) {
    const torch::Tensor expected = (words.select(1, i - 1) * 5 + 1) % kWords;
    words.select(1, i).copy_(
        torch::where(torch::rand({kBatch}) < 0.9, expected, words.select(1, i)));
  }
  return {words.slice(1, 0, kLength).contiguous(), words.slice(1, 1).contiguous()};
}

// Pictures of stripes: their kind is how fine they are.
Tensors some_pictures() {
  constexpr std::int64_t kBatch = 16;
  constexpr std::int64_t kSize = training::ResNetImpl::kSize;
  const torch::Tensor kinds = torch::randint(training::ResNetImpl::kKinds, {kBatch}, torch::kLong);
  const torch::Tensor frequency = (kinds + 1).to(torch::kFloat).view({-1, 1, 1, 1}) * 0.3;
  const torch::Tensor stripes =
      (frequency * torch::arange(kSize) + 6 * torch::rand({kBatch, 1, 1, 1})).sin();
  return {stripes + 0.3 * torch::randn({kBatch, 3, kSize, kSize}), kinds};
}

struct Run {
  std::vector<double> losses;
  double first_ms = 0;  // The first step, in which the compiled one is compiled.
  double step_ms = 0;   // Half of the others take no longer.
};

template <class Model>
Run train(How how,
          int steps,
          const MakeOptimizer& make_optimizer,
          const std::function<Tensors()>& make_batch) {
  torch::manual_seed(0);
  const auto model = std::make_shared<Model>();
  Loss loss = [model](const Tensors& in) { return Tensors{model->loss(in[0], in[1])}; };
  if (how == How::kCompiled) {
    loss = kiln::compile(model, loss);
  } else if (how == How::kNudged) {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : model->parameters()) {
      parameter.mul_(1 + kOneUnit);
    }
  }
  const auto optimizer = make_optimizer(model->parameters());
  torch::manual_seed(1);
  Run run;
  std::vector<double> times;
  for (int step = 0; step < steps; ++step) {
    const Tensors batch = make_batch();
    const auto start = std::chrono::steady_clock::now();
    optimizer->zero_grad();
    const torch::Tensor value = loss(batch)[0];
    value.backward();
    optimizer->step();
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    (step == 0 ? run.first_ms : times.emplace_back()) = taken.count();
    run.losses.push_back(value.item<double>());
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  run.step_ms = times.empty() ? 0 : times[times.size() / 2];
  return run;
}

// The largest relative difference of two runs' losses.
double difference(const Run& run, const Run& from) {
  double worst = 0;
  for (std::size_t step = 0; step < run.losses.size(); ++step) {
    worst = std::max(
        worst, std::abs(run.losses[step] - from.losses[step]) / std::max(from.losses[step], 0.1));
  }
  return worst;
}

template <class Model>
bool compare(const std::string& name,
             int steps,
             const MakeOptimizer& make_optimizer,
             const std::function<Tensors()>& make_batch) {
  const Run eager = train<Model>(How::kEager, steps, make_optimizer, make_batch);
  const Run nudged = train<Model>(How::kNudged, steps, make_optimizer, make_batch);
  const Run compiled = train<Model>(How::kCompiled, steps, make_optimizer, make_batch);

  std::printf("\n%s\n  step     eager  compiled\n", name.c_str());
  for (int step = 0; step < steps; ++step) {
    if (step % std::max(1, steps / 5) == 0 || step == steps - 1) {
      std::printf("  %4d  %8.5f  %8.5f\n", step, eager.losses[step], compiled.losses[step]);
    }
  }
  const double worst = difference(compiled, eager);
  const double rounding = difference(nudged, eager);
  const bool near = worst < std::max(kTolerance, kMoreThanRounding * rounding);
  std::printf("  largest relative difference over %d steps: %.1e (rounding alone: %.1e)%s\n",
              steps,
              worst,
              rounding,
              near ? "" : "   TOO LARGE");
  std::printf("  a step: eager %.2f ms, compiled %.2f ms; the first with compilation %.0f ms\n",
              eager.step_ms,
              compiled.step_ms,
              compiled.first_ms);
  return near;
}

}  // namespace

int main(int count, char** arguments) {
  const int steps = count > 1 ? std::atoi(arguments[1]) : 200;
  if (steps < 1) {
    std::fprintf(stderr, "usage: %s [STEPS]\n", arguments[0]);
    return 2;
  }
  const auto sgd = [](double rate) {
    return [rate](std::vector<torch::Tensor> parameters) {
      return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                                 torch::optim::SGDOptions(rate).momentum(0.9));
    };
  };
  const auto adam = [](double rate) {
    return [rate](std::vector<torch::Tensor> parameters) {
      return std::make_unique<torch::optim::Adam>(std::move(parameters),
                                                  torch::optim::AdamOptions(rate).eps(1e-4));
    };
  };

  using training::LanguageModelImpl;
  using training::ResNetImpl;
  bool near = compare<LanguageModelImpl>("GPT-2-like, SGD", steps, sgd(0.05), some_text);
  near = compare<LanguageModelImpl>("GPT-2-like, Adam", steps, adam(1e-3), some_text) && near;
  near = compare<ResNetImpl>("ResNet, SGD", steps, sgd(0.002), some_pictures) && near;
  near = compare<ResNetImpl>("ResNet, Adam", steps, adam(2e-4), some_pictures) && near;
  return near ? 0 : 1;
}
