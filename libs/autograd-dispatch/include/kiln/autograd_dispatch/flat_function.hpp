// Compiled functions of values that were taken apart.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/autograd_dispatch/values.hpp"

namespace kiln::autograd_dispatch {

/// What a function of values is compiled for: everything about its arguments but the tensors.
struct Specialization {
  std::string types = {};         ///< The types of the arguments, mangled.
  Structure arguments = {};       ///< Their lengths, keys, numbers and strings.
  bool result_is_static = false;  ///< The result's structure is known from its type.
  std::size_t integers = 0;       ///< How many numbers are kept apart from it.
};

/// From a function of tensors to a compiled one that compiles again by itself where it must (the
/// facade's `compile`).
///
/// It is handed the function as it runs for arguments of one structure: it takes the tensors in
/// them, in order, behind them one tensor for each number that is kept apart from the structure,
/// whose last dimension that number is the size of and which has no elements, and returns those in
/// the result. Unless `Specialization::result_is_static`, it returns such tensors for numbers of
/// the result too, and one more that stands for the result's structure. It may be called until the
/// `FlatFunction` and its copies are gone. The `Specialization` says which structure that is.
///
/// Asked for once per structure, by one thread at a time. An empty function means that this
/// structure is not compiled: the call runs as it is, and the next one asks again.
using FunctionCompiler = std::function<TensorFunction(TensorFunction, const Specialization&)>;

/// A function of values taken apart. It is compiled once for each structure of its arguments:
/// whatever is not a tensor may be used to compute with, and is fixed in what was compiled, except
/// for numbers that are kept apart from the structure and reach it as sizes.
class FlatFunction {
 public:
  /// How the function is called with arguments of certain types. One object for each list of types,
  /// which is known by its address.
  struct Program {
    /// Calls the function as it is; whole numbers of its result may be kept apart.
    Flat (*run)(void* function, const Flat& arguments, bool integers_vary);
    const char* types;        ///< For `Specialization::types`.
    const Structure* result;  ///< Of all results; null where it may vary.
  };

  /// Of the function for one structure of its arguments.
  struct Version {
    const Program* program;         ///< How it is called.
    Specialization specialization;  ///< What it was compiled for.
    TensorFunction compiled;        ///< As the compiler made it.
  };

  /// Compiles nothing yet. `function` is handed to programs. With `integers_vary`, calls have their
  /// whole numbers, and results theirs, apart from the structure where they can
  /// (`integer_may_vary`), as sizes that the compiler may let vary.
  FlatFunction(std::shared_ptr<void> function, FunctionCompiler compiler, bool integers_vary);

  [[nodiscard]] bool integers_vary() const { return integers_vary_; }  ///< As it was made.

  /// Calls it; compiles it first for a structure that is new.
  Flat operator()(const Program& program, const Flat& arguments) const;

  /// What a call with arguments of this structure uses.
  [[nodiscard]] std::shared_ptr<const Version> version_for(const Program& program,
                                                           const Flat& arguments) const;

  /// All that were asked for so far.
  [[nodiscard]] std::vector<std::shared_ptr<const Version>> versions() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  bool integers_vary_;
};

/// The tensors in `arguments`, and behind them those that stand for their integers.
[[nodiscard]] Tensors with_integers(const Flat& arguments);

}  // namespace kiln::autograd_dispatch
