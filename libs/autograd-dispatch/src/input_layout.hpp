// How the arguments of a trace become the inputs of a graph.
//
// An argument that is passed twice is one input. Arguments that share a storage but no element are
// unrelated. Arguments that overlap are separate inputs as long as autograd sees no mutation of
// them. Otherwise `merge` replaces them by one input, the tensor that they are views of, because
// only there can autograd see what a mutation of one means for the others. The same holds for an
// expanded argument that is mutated: its elements overlap each other.

#pragma once

#include <optional>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/autograd_dispatch/plan.hpp"

namespace kiln::autograd_dispatch {

class InputLayout {
 public:
  explicit InputLayout(Tensors arguments);

  /// Makes one input of all arguments on the storage of `argument`.
  ///
  /// Throws `Error` with `kUnsupported` if they are not views of one tensor.
  void merge(std::uint32_t argument);
  [[nodiscard]] bool is_merged(std::uint32_t argument) const;
  /// Whether `argument` overlaps another argument that is not the same object.
  [[nodiscard]] bool overlaps_another(std::uint32_t argument) const;
  /// Whether elements of `argument` repeat, and those of the tensor that it is a view of do not.
  [[nodiscard]] bool is_expanded_view(std::uint32_t argument) const;

  /// One tensor per graph input. The trace runs on shadows of these.
  [[nodiscard]] Tensors sources() const;

  /// What stands for the arguments in a trace.
  struct ShadowInputs {
    Tensors arguments;  ///< What to call the function with.
    Tensors inputs;     ///< For each graph input: the tensor that stands for it there.
  };
  /// Makes them from shadows of `sources()`. They share memory and autograd views as the arguments
  /// do; one that is not a leaf has a history that ends at its shadow.
  [[nodiscard]] ShadowInputs shadow_inputs(const Tensors& sources) const;

  [[nodiscard]] std::uint32_t input_of(std::uint32_t argument) const { return input_of_[argument]; }
  [[nodiscard]] const std::vector<InputPlan>& inputs() const { return inputs_; }
  [[nodiscard]] std::vector<AliasPlan> aliases() const;
  [[nodiscard]] const Tensors& arguments() const { return arguments_; }

 private:
  void arrange();
  [[nodiscard]] at::Tensor common_base(std::uint32_t argument) const;

  Tensors arguments_;
  std::vector<std::uint32_t> same_as_;    // By argument: the first that is the same object,
  std::vector<std::uint32_t> first_;      // the first on the same storage,
  std::vector<std::uint32_t> component_;  // and the first that it overlaps, others between.
  std::vector<bool> merged_;              // By argument, set on the first of a storage.
  std::vector<InputPlan> inputs_;
  std::vector<std::uint32_t> input_of_;
};

}  // namespace kiln::autograd_dispatch
