// Compiled functions of flattened values.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/autograd_dispatch/values.hpp"

namespace kiln::autograd_dispatch {

/// What a function of values is compiled for: everything about its arguments except the tensors.
struct Specialization {
  std::string types = {};         ///< The types of the arguments, mangled.
  Structure arguments = {};       ///< Their lengths, keys, numbers and strings.
  bool result_is_static = false;  ///< The result's structure follows from its type.
  std::size_t integers = 0;       ///< How many integers are passed as sizes of tensors.
};

/// Compiles a function of tensors; the result recompiles itself when its guards fail (the facade's
/// `compile`).
///
/// The compiler gets the function for arguments of one structure (the `Specialization`). Its inputs
/// are the tensors of the arguments, in order, followed by one tensor for each integer that is
/// passed as a size: a tensor without elements whose last dimension has that size. Its results are
/// the tensors of the result. Unless `Specialization::result_is_static`, they are followed by such
/// tensors for the integers of the result, whose sizes are larger by 2^48 because an integer may be
/// negative, and by one that identifies the structure of the result. The function may be called
/// until the `FlatFunction` and its copies are gone.
///
/// Called once per structure, by one thread at a time. If it returns an empty function, the call
/// runs eagerly, and the next call asks again.
using FunctionCompiler = std::function<TensorFunction(TensorFunction, const Specialization&)>;

/// A function of flattened values, compiled once for each structure of its arguments. Everything
/// that is not a tensor is fixed in the compiled code, except integers that are passed as sizes of
/// tensors.
class FlatFunction {
 public:
  /// How the function is called with arguments of certain types. There is one object for each list
  /// of types, identified by its address.
  struct Program {
    /// Calls the original function. With `integers_vary`, integers of the result are listed apart
    /// from its structure.
    Flat (*run)(void* function, const Flat& arguments, bool integers_vary);
    const char* types;        ///< For `Specialization::types`.
    const Structure* result;  ///< Of all results; null where it may vary.
  };

  /// The compiled function for one structure of its arguments.
  struct Version {
    const Program* program;         ///< How it is called.
    Specialization specialization;  ///< What it was compiled for.
    TensorFunction compiled;        ///< What the compiler returned.
  };

  /// Compiles nothing yet. `function` is passed to `Program::run`. With `integers_vary`, integers
  /// among arguments and results are passed as sizes where that is possible (`integer_may_vary`),
  /// so that the compiler can let them vary.
  FlatFunction(std::shared_ptr<void> function, FunctionCompiler compiler, bool integers_vary);

  [[nodiscard]] bool integers_vary() const { return integers_vary_; }  ///< See the constructor.

  /// Calls the function, after compiling it if the structure is new.
  Flat operator()(const Program& program, const Flat& arguments) const;

  /// The version for arguments of this structure, compiled if necessary.
  [[nodiscard]] std::shared_ptr<const Version> version_for(const Program& program,
                                                           const Flat& arguments) const;

  /// All compiled versions.
  [[nodiscard]] std::vector<std::shared_ptr<const Version>> versions() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  bool integers_vary_;
};

/// The tensors of `arguments`, followed by those that stand for their integers.
[[nodiscard]] Tensors with_integers(const Flat& arguments);

}  // namespace kiln::autograd_dispatch
