// From a function to a compiled function through which gradients flow.

#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/autograd_dispatch/joint.hpp"
#include "kiln/autograd_dispatch/plan.hpp"

namespace kiln::autograd_dispatch {

/// The parts that do the work.
struct DispatchOptions {
  Compiler forward = interpret;      ///< For the forward of a function that trains.
  Compiler backward = interpret;     ///< For the backward graph, when it first runs.
  Compiler inference = interpret;    ///< For a function without gradients.
  PartitionFunction partition = {};  ///< Required for a function that trains.
  /// Compile the backward when it first runs instead of with the forward. One that takes sizes is
  /// compiled with the forward all the same; if that fails, again when it runs.
  bool lazy_backward = true;
};

/// A traced function, compiled. Copyable, and callable from many threads. One that neither
/// `dispatch` nor `assemble` made is empty: all members throw `Error` with `kInvalidArgument`.
class CompiledFunction {
 public:
  /// Whether the function was compiled for arguments that are related like these: which are the
  /// same object or share memory, which require grad. Metadata is the caller's to compare.
  [[nodiscard]] bool accepts(const Tensors& arguments) const;

  /// Runs on one tensor per traced argument, captured tensors after the function's own.
  ///
  /// The tensors must have the metadata they were traced with: that is not checked. Throws `Error`
  /// with `kInvalidArgument` for arguments that it does not accept, saying why.
  Tensors operator()(const Tensors& arguments) const;

  /// Runs on arguments that it accepts; else does nothing and returns nothing.
  [[nodiscard]] std::optional<Tensors> call_if_accepted(const Tensors& arguments) const;

  /// Whether it was compiled with a backward.
  [[nodiscard]] bool trains() const;
  [[nodiscard]] const Plan& plan() const;  ///< What it does round the compiled graphs.

 private:
  friend CompiledFunction assemble(Plan plan,
                                   CompiledGraph forward,
                                   std::function<CompiledGraph()> backward);
  struct State;
  [[nodiscard]] const State& state() const;
  std::shared_ptr<State> state_;
};

/// Compiles a trace: the inference graph if nothing in it is differentiable, else forward and
/// backward.
[[nodiscard]] CompiledFunction dispatch(JointTrace trace, const DispatchOptions& options);

/// Puts together a function that was compiled before, from its `CompiledFunction::plan()` and its
/// compiled graphs. `forward` is the inference graph if nothing is differentiable; else `backward`
/// is called when a backward first runs.
[[nodiscard]] CompiledFunction assemble(Plan plan,
                                        CompiledGraph forward,
                                        std::function<CompiledGraph()> backward = {});

/// Whether a function with `plan` takes `arguments`: see `CompiledFunction::accepts`.
[[nodiscard]] bool accepts(const Plan& plan, const Tensors& arguments);

}  // namespace kiln::autograd_dispatch
