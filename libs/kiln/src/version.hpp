// A function compiled for one situation.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "guards.hpp"
#include "kiln/autograd_dispatch/dispatch.hpp"
#include "kiln/options.hpp"
#include "module_state.hpp"

namespace kiln {

using Tensors = std::vector<at::Tensor>;

struct Version {
  /// For calls like this one; `module` may be null.
  Version(const Tensors& arguments, const ThreadGuard& now, const torch::nn::Module* of);

  /// Adds the tensors that the function uses and that are no arguments.
  void set_captured(Tensors tensors);

  /// Whether a call is like the one that this was made for, but for how its tensors are related.
  [[nodiscard]] bool resembles(const Tensors& arguments, const ThreadGuard& now) const;
  /// Whether it is the one for a call.
  [[nodiscard]] bool holds(const Tensors& arguments, const ThreadGuard& now) const;

  /// Runs if it is the one for this call.
  [[nodiscard]] std::optional<Tensors> call(const Tensors& arguments, const ThreadGuard& now) const;

  /// The first of its guards that a call does not pass, in words.
  [[nodiscard]] std::string mismatch(const Tensors& arguments, const ThreadGuard& now) const;

  /// What must hold, in words.
  [[nodiscard]] VersionReport describe() const;

  ThreadGuard thread;
  std::vector<TensorGuard> inputs, captured_guards;
  const torch::nn::Module* module;
  std::optional<ModuleState> module_state;
  Tensors captured;
  std::string origin;
  std::string reason;
  /// Nothing: it could not be compiled, and runs as it is.
  std::optional<autograd_dispatch::CompiledFunction> function;

 private:
  [[nodiscard]] Tensors with_captured(const Tensors& arguments) const;
};

}  // namespace kiln
