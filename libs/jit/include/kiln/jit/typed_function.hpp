// Compiled functions with the signature that they were written with.

#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "kiln/autograd_dispatch/typed_function.hpp"
#include "kiln/jit/function.hpp"

namespace kiln {

/// Defines how a user-defined type that wraps tensors is flattened
/// (`kiln/autograd_dispatch/values.hpp`).
using autograd_dispatch::ValueTraits;

namespace detail {

/// Compiles a function of tensors for each structure of values that it is called with.
[[nodiscard]] autograd_dispatch::FunctionCompiler function_compiler(
    std::shared_ptr<torch::nn::Module> module, CompileOptions options);

/// Whether integers among the arguments may be symbols.
[[nodiscard]] bool integers_vary(const CompileOptions& options);

/// See `TypedFunction::prepare`.
void prepare(const autograd_dispatch::FlatFunction& function,
             const autograd_dispatch::FlatFunction::Program& program,
             const autograd_dispatch::Flat& example);

/// One report of everything that `function` compiled.
[[nodiscard]] CompileReport report_of(const autograd_dispatch::FlatFunction& function);

}  // namespace detail

/// A compiled `F`, called as `F` is: `fast(x, y)`. Arguments and results are tensors, numbers,
/// `std::string`, `std::optional`, `std::vector`, `std::tuple`, `std::pair` and `std::map` of them,
/// and types with `ValueTraits`. Copies share what they compiled; callable from many threads.
///
/// Arguments that are not tensors are guarded by value: each new value compiles another version, up
/// to `CompileOptions::max_versions`. However, integers from 0 to 2^31 - 1 vary as sizes do once
/// the calls span a dozen values; a new value is traced before it is served
/// (`CompileOptions::automatic_dynamic`, `verify_new_sizes`). Default arguments may be omitted for
/// a module's forward and for lambdas, whose types keep them, but not for plain functions.
template <class F>
class TypedFunction : public autograd_dispatch::TypedFunction<F> {
 public:
  /// See `compile`.
  TypedFunction(F function,
                std::shared_ptr<torch::nn::Module> module,
                const CompileOptions& options)
      : autograd_dispatch::TypedFunction<F>(std::move(function),
                                            detail::function_compiler(std::move(module), options),
                                            detail::integers_vary(options)) {}

  /// Compiles for calls with arguments like these, which are not changed, without such a call.
  template <class... Given>
    requires std::invocable<const autograd_dispatch::TypedFunction<F>&, const Given&...>
  void prepare(const Given&... example) const {
    using Call = typename TypedFunction::template CallWith<Given...>;
    detail::prepare(
        this->flat_, Call::program(), Call::flatten(this->flat_.integers_vary(), example...));
  }

  /// What was compiled so far. Taken as a copy: other threads may be compiling.
  [[nodiscard]] CompileReport report() const { return detail::report_of(this->flat_); }
};

}  // namespace kiln
