// What the ten programs share: how a loss gets from a program's training loop to the driver, and
// the switch between eager and compiled. Nothing here is needed to compile a program of one's own.

#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <coroutine>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "kiln/kiln.hpp"

namespace programs {

/// What a training loop yields, one loss a step: `co_yield loss` stands where a program would print
/// it. The loop goes on when the next loss is asked for, so that two programs can take turns.
class Losses {
 public:
  struct promise_type {
    double loss = 0;

    Losses get_return_object() {
      return Losses(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(const torch::Tensor& value) {
      loss = value.item<double>();
      return {};
    }
    void return_void() {}
    void unhandled_exception() { throw; }
  };

  /// Runs one step, the first time with everything before the loop.
  double next() {
    handle_.resume();
    return handle_.promise().loss;
  }

  explicit Losses(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  ~Losses() { handle_.destroy(); }
  Losses(const Losses&) = delete;
  Losses& operator=(const Losses&) = delete;

 private:
  std::coroutine_handle<promise_type> handle_;
};

/// One run of a program, eager or compiled.
class Run {
 public:
  /// `nudge` moves every parameter by about a unit in the last place, each number by a chance of
  /// its own: what comes of that is what rounding does to the program. 0 leaves them as they are.
  explicit Run(bool compiled, std::uint64_t nudge = 0) : compiled_(compiled), nudge_(nudge) {}

  /// `kiln::compile(module)`, or what calls the module's forward as it is.
  template <class Impl>
  auto compile(const torch::nn::ModuleHolder<Impl>& module) {
    nudge(*module);
    auto forward = forward_of(module.ptr());
    if (compiled_) {
      forward = watch(kiln::compile(module.ptr()));
    }
    return forward;
  }

  /// `kiln::compile(module, function)`, or the function as it is.
  template <class Module, class F>
  auto compile(const Module& module, F function) {
    nudge(*module);
    std::function result(function);
    if (compiled_) {
      result = watch(kiln::compile(module, std::move(function)));
    }
    return result;
  }

  /// How many versions were compiled so far, of all functions.
  [[nodiscard]] int versions() const {
    int sum = 0;
    for (const auto& report : reports_) {
      sum += report().versions;
    }
    return sum;
  }

 private:
  // The type of a compiled module is its own; the two must have one here.
  template <class Impl>
  static auto forward_of(const std::shared_ptr<Impl>& module) {
    if constexpr (requires { &Impl::forward; }) {
      return forward_of(module, &Impl::forward);
    } else {  // Sequential's is a template.
      return std::function<torch::Tensor(torch::Tensor)>(
          [module](torch::Tensor x) { return module->forward(x); });
    }
  }
  template <class Impl, class Result, class... Parameters>
  static auto forward_of(const std::shared_ptr<Impl>& module, Result (Impl::*)(Parameters...)) {
    return std::function<Result(Parameters...)>(
        [module](Parameters... given) { return module->forward(given...); });
  }

  void nudge(const torch::nn::Module& module) const {
    if (nudge_ == 0) {
      return;
    }
    const torch::NoGradGuard no_grad;
    const auto chance = at::make_generator<at::CPUGeneratorImpl>(nudge_);  // Not the program's own.
    for (torch::Tensor& parameter : module.parameters()) {
      const auto units = torch::randint(-1, 2, parameter.sizes(), chance, parameter.options());
      parameter.mul_(1 + units * std::numeric_limits<float>::epsilon());
    }
  }

  template <class Compiled>
  Compiled watch(Compiled compiled) {
    reports_.push_back([compiled] { return compiled.report(); });
    return compiled;
  }

  bool compiled_;
  std::uint64_t nudge_;
  std::vector<std::function<kiln::CompileReport()>> reports_;
};

Losses train_gpt(Run& run);
Losses train_lstm(Run& run);
Losses train_resnet(Run& run);
Losses train_dcgan(Run& run);
Losses train_wgan_gp(Run& run);
Losses train_vae(Run& run);
Losses train_ppo(Run& run);
Losses train_pinn(Run& run);
Losses train_lora(Run& run);
Losses train_graph(Run& run);

}  // namespace programs
