// A call of a compiled function passes through a list of wrappers: each does one thing before the
// compiled graph runs and one after. A function gets only those that its plan asks for.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/autograd_dispatch/plan.hpp"

namespace kiln::autograd_dispatch {

/// One call on its way.
struct Call {
  const Tensors& arguments;   ///< What the caller passed.
  Tensors inputs = {};        ///< What the compiled graph takes.
  Tensors results = {};       ///< What it returned.
  Tensors outputs = {};       ///< What the caller gets.
  ir::Bindings symbols = {};  ///< For windows of outputs; empty where none varies.
  /// How often the inputs that the graph writes had been written before, as autograd counts.
  std::vector<std::int64_t> versions = {};
};

class Wrapper {
 public:
  virtual ~Wrapper() = default;
  virtual void before(Call& /*call*/) const {}
  virtual void after(Call& /*call*/) const {}
};

/// The wrappers of `plan`. `before` is called in their order, and so is `after`.
[[nodiscard]] std::vector<std::unique_ptr<const Wrapper>> wrappers_of(const Plan& plan);

/// Arguments that the function starts to differentiate require grad before the graph runs.
[[nodiscard]] std::unique_ptr<const Wrapper> start_gradients(const Plan& plan);
/// Storages that the function allocates are allocated before the graph runs, those that it frees
/// are freed after it.
[[nodiscard]] std::unique_ptr<const Wrapper> resize_storages(const Plan& plan);
/// Duplicates go once to the graph, and the base of several views instead of them.
[[nodiscard]] std::unique_ptr<const Wrapper> gather_inputs(const Plan& plan);
/// New elements and new geometry for arguments.
[[nodiscard]] std::unique_ptr<const Wrapper> update_arguments(const Plan& plan);
/// Arguments that were `set_` get their new memory; those that lose their history lose it.
[[nodiscard]] std::unique_ptr<const Wrapper> move_arguments(const Plan& plan);
/// Makes the outputs at `positions`.
[[nodiscard]] std::unique_ptr<const Wrapper> assemble_outputs(
    const Plan& plan, const std::vector<std::uint32_t>& positions);
/// Leaves grad mode as the function does.
[[nodiscard]] std::unique_ptr<const Wrapper> leave_grad_mode(bool enabled);

}  // namespace kiln::autograd_dispatch
