// Compiled functions of values instead of lists of tensors: wrappers, numbers, dictionaries in and
// out.

#pragma once

#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kiln/autograd_dispatch/values.hpp"

namespace kiln::autograd_dispatch {

/// From a function of tensors to a compiled one that compiles again by itself where it must (the
/// facade's `compile`).
using FunctionCompiler = std::function<TensorFunction(TensorFunction)>;

/// A function of values taken apart. It is compiled once for each structure of its arguments:
/// whatever is no tensor may be used to compute with, and is fixed in what was compiled.
class FlatFunction {
 public:
  using Program = std::function<Flat(const Flat&)>;  ///< The function, on values taken apart.

  FlatFunction(Program program, FunctionCompiler compiler);  ///< Compiles nothing yet.

  /// Calls it; compiles it first for a structure that is new.
  Flat operator()(const Flat& arguments) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

template <class Signature>
class TypedFunction;

/// A compiled function with the arguments and the result of the original. Tensors inside values are
/// what the compiled code takes and returns; gradients and writes reach them as in eager. Copies
/// share what was compiled; callable from many threads.
template <class Result, class... Arguments>
class TypedFunction<Result(Arguments...)> {
  static_assert((!(std::is_lvalue_reference_v<Arguments> &&
                   !std::is_const_v<std::remove_reference_t<Arguments>>) &&
                 ...),
                "a value that the function replaces cannot be the caller's: return it");

 public:
  /// Compiles nothing yet.
  TypedFunction(std::function<Result(Arguments...)> function, FunctionCompiler compiler)
      : flat_(flattened(std::move(function)), std::move(compiler)) {}

  /// Calls it as the original is called.
  Result operator()(const std::remove_cvref_t<Arguments>&... arguments) const {
    const Flat results = flat_(take_apart(std::tuple(arguments...)));
    if constexpr (!std::is_void_v<Result>) {
      return put_together<std::remove_cvref_t<Result>>(results);
    }
  }

 private:
  static FlatFunction::Program flattened(std::function<Result(Arguments...)> function) {
    return [function = std::move(function)](const Flat& flat) {
      auto arguments = put_together<std::tuple<std::remove_cvref_t<Arguments>...>>(flat);
      if constexpr (std::is_void_v<Result>) {
        std::apply(function, arguments);
        return Flat();
      } else {
        return take_apart<std::remove_cvref_t<Result>>(std::apply(function, arguments));
      }
    };
  }

  FlatFunction flat_;
};

template <class Result, class... Arguments>
TypedFunction(std::function<Result(Arguments...)>, FunctionCompiler)
    -> TypedFunction<Result(Arguments...)>;

}  // namespace kiln::autograd_dispatch
