// Compiled functions of lists of tensors.

#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kiln/jit/options.hpp"

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace kiln {

/// The arguments or the results of a function.
using Tensors = std::vector<at::Tensor>;
/// A function of tensors.
using TensorFunction = std::function<Tensors(const Tensors&)>;

class Function;

namespace detail {

/// Throws `Error` with `kInvalidArgument` if there is nothing to compile.
void check_function(bool there);

class VersionBudget;

/// Compiles one of several functions whose versions `budget` counts together. `reason` is why it is
/// compiled beside the others; empty for the first. The last `integers` inputs stand for integers
/// (`autograd_dispatch::FunctionCompiler`).
[[nodiscard]] Function compile_with_budget(std::shared_ptr<torch::nn::Module> module,
                                           TensorFunction forward,
                                           CompileOptions options,
                                           std::shared_ptr<VersionBudget> budget,
                                           std::string reason,
                                           std::size_t integers);

}  // namespace detail

/// A compiled function. Copies share what they compiled; callable from many threads. One that
/// `compile` did not make, or that was moved from, is empty: all members throw `Error` with
/// `kInvalidArgument`.
class Function {
 public:
  /// Runs on `inputs`. The first call traces and compiles, and so does a call that matches no
  /// compiled version: other dtypes, shapes, strides, aliasing, requires_grad, grad mode, autocast.
  /// If nothing is differentiable, mutated or random, such a call returns what the trace computed.
  ///
  /// Inside a program that is itself being recorded, the original function runs.
  ///
  /// Throws what the function throws, and `Error` if it cannot be compiled.
  Tensors operator()(const Tensors& inputs) const;

  /// Compiles for calls with tensors like `example`, which are not changed, without such a call. A
  /// meta tensor, which has no memory, stands for zeros where the module's parameters are.
  void prepare(const Tensors& example) const;

  /// What was compiled so far. Taken as a copy: other threads may be compiling.
  [[nodiscard]] CompileReport report() const;

 private:
  friend Function detail::compile_with_budget(std::shared_ptr<torch::nn::Module> module,
                                              TensorFunction forward,
                                              CompileOptions options,
                                              std::shared_ptr<detail::VersionBudget> budget,
                                              std::string reason,
                                              std::size_t integers);
  struct State;
  [[nodiscard]] State& state() const;
  std::shared_ptr<State> state_;
};

/// Compiles a module's forward when it is first called. Guarded too: `train()`/`eval()` of every
/// submodule, and parameters that are replaced, moved or frozen.
[[nodiscard]] Function compile(std::shared_ptr<torch::nn::Module> module,
                               TensorFunction forward,
                               CompileOptions options = default_options());

}  // namespace kiln
