// Compiled functions with the signature that they were written with: tensors, wrappers, numbers,
// dictionaries in and out.

#pragma once

#include <memory>
#include <utility>

#include "kiln/autograd_dispatch/flat_function.hpp"
#include "kiln/autograd_dispatch/typed_call.hpp"

namespace kiln::autograd_dispatch {

/// A compiled `F`, called as it is called. Tensors inside values are what the compiled code takes
/// and returns; gradients and writes reach them as in eager. Copies share what was compiled;
/// callable from many threads.
template <class F>
class TypedFunction {
 public:
  /// Compiles nothing yet. For `integers_vary` see `FlatFunction`.
  TypedFunction(F function, FunctionCompiler compiler, bool integers_vary = false)
      : flat_(std::make_shared<F>(std::move(function)), std::move(compiler), integers_vary) {}

  /// Calls it as the original is called, but for lists in braces, which have no type: `f({x})[0]`
  /// would be a row of the result where the result is a tensor.
  ///
  /// Throws `Error` with `kUnsupported` if the function assigns another value to a parameter that
  /// it takes by reference; writing into a tensor (`x.add_(1)`) is what eager does.
  template <class... Given>
    requires detail::CallOf<F, typename SignatureOf<F>::Type, Given...>::kPossible
  auto operator()(const Given&... given) const {
    using Call = CallWith<Given...>;
    return Call::unflatten(flat_(Call::program(), Call::flatten(flat_.integers_vary(), given...)));
  }

 protected:
  /// How a call with `Given` is turned into one of the flat function.
  template <class... Given>
  using CallWith = typename detail::CallOf<F, typename SignatureOf<F>::Type, Given...>::Type;

  FlatFunction flat_;  ///< What is called.
};

}  // namespace kiln::autograd_dispatch
