// Compiled functions of values that are only known at run time: tuples, lists, dictionaries, None
// and numbers as `c10::IValue`.
//
// Whoever calls these includes <ATen/core/ivalue.h>, or all of torch, too.

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kiln/jit/function.hpp"

namespace c10 {
struct IValue;
}

namespace kiln::autograd_dispatch {
class FlatFunction;
}

namespace kiln {

/// Arguments of any kind.
using Values = std::vector<c10::IValue>;
/// A function of values of any kind.
using ValueFunction = std::function<c10::IValue(const Values&)>;

class StructuredFunction;

namespace detail {

/// What `compile` calls for a `ValueFunction`.
[[nodiscard]] StructuredFunction compile_structured(std::shared_ptr<torch::nn::Module> module,
                                                    ValueFunction fn,
                                                    CompileOptions options);

}  // namespace detail

/// A compiled function of structured values. Copies share what they compiled; callable from many
/// threads. One that `compile` did not make is empty: all members throw `Error` with
/// `kInvalidArgument`.
class StructuredFunction {
 public:
  /// Runs on `arguments`. Guarded, beside what `Function` guards: how they are nested, and whatever
  /// in them is not a tensor; but integers from 0 to 2^31 - 1 vary as sizes do.
  ///
  /// Throws what `Function` throws, and `Error` with `kUnsupported` for a value that is neither a
  /// tensor, a number, a string, None nor a tuple, list or dictionary of such.
  c10::IValue operator()(const Values& arguments) const;

  /// Compiles for calls with arguments like `example`, which are not changed, without such a call.
  void prepare(const Values& example) const;

  /// What was compiled so far, however arguments were nested.
  [[nodiscard]] CompileReport report() const;

 private:
  friend StructuredFunction detail::compile_structured(std::shared_ptr<torch::nn::Module> module,
                                                       ValueFunction fn,
                                                       CompileOptions options);
  [[nodiscard]] const autograd_dispatch::FlatFunction& flat() const;
  std::shared_ptr<const autograd_dispatch::FlatFunction> flat_;
};

}  // namespace kiln
