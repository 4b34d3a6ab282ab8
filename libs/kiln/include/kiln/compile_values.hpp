// Just-in-time compilation of functions whose arguments and results are more than tensors.

#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "kiln/autograd_dispatch/typed_function.hpp"
#include "kiln/compile.hpp"

namespace kiln {

/// Says how a type of one's own that wraps tensors is taken apart
/// (`kiln/autograd_dispatch/values.hpp`).
using autograd_dispatch::ValueTraits;

/// Compiles `fn`, a function of values: tensors, numbers, strings, `std::optional`, `std::vector`,
/// `std::tuple`, `std::map` of them, and types with `ValueTraits`. What comes back has the
/// signature of `fn`. Whatever is no tensor is guarded by its value.
///
/// `module`, if given, is guarded as `compile` does. `options.identity` is not used: the structure
/// of the result is known from a trace only.
template <class F>
[[nodiscard]] auto compile_values(std::shared_ptr<torch::nn::Module> module,
                                  F&& fn,
                                  CompileOptions options = {}) {
  options.identity.clear();
  return autograd_dispatch::TypedFunction(
      std::function(std::forward<F>(fn)),
      [module = std::move(module), options = std::move(options)](TensorFunction dense) {
        return TensorFunction(compile(module, std::move(dense), options));
      });
}

/// Likewise, without a module.
template <class F>
[[nodiscard]] auto compile_values(F&& fn, CompileOptions options = {}) {
  return compile_values(
      std::shared_ptr<torch::nn::Module>(), std::forward<F>(fn), std::move(options));
}

}  // namespace kiln
