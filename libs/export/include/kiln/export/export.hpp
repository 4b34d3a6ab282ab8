// From a running C++ program to an `ExportedProgram`.
//
// The function runs once, on shadows of the example inputs: they, the module and the random number
// generators are afterwards as they were. Tensors that the function uses and that are not inputs
// are known by identity: they become the parameters and buffers they were named as, or constants.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kiln/export/dynamic_dims.hpp"
#include "kiln/export/exported_program.hpp"
#include "kiln/ir/decompose.hpp"

namespace torch::nn {
class Module;
}

namespace kiln::exporter {

/// A function of tensors.
using TensorFunction = std::function<Tensors(const Tensors&)>;

/// A tensor that belongs to the program.
struct NamedTensor {
  std::string name;        ///< "encoder.layer.0.weight"
  at::Tensor tensor;       ///< The tensor itself.
  bool is_buffer = false;  ///< Otherwise a parameter.
  bool persistent = true;  ///< Whether a state dict has it; for buffers.
};

/// How a program is exported.
struct ExportOptions {
  /// Names of the graph's user inputs; "input0", "input1", … where there is none.
  std::vector<std::string> input_names = {};
  /// Trace the gradients too: outputs are then followed by one gradient per parameter and per user
  /// input that requires grad. Needs `loss_index`.
  bool joint = false;
  /// Which output is the loss, a scalar that is seeded with one.
  std::optional<std::uint32_t> loss_index = std::nullopt;
  /// Allow reads of a tensor's value (`item()`); the value is then fixed in the graph.
  bool allow_value_reads = false;
  /// Look for values that are read without going through the dispatcher
  /// (`x.data_ptr<float>()[0]`): trace a second time, on perturbed data, and throw where the two
  /// differ. See
  /// `capture::RecordOptions::check_hidden_reads`.
  bool check_hidden_reads = false;
  /// Let the program return memory that no operator has written (`torch::empty`), instead of taking
  /// it for memory that was filled through a raw pointer, which is an error.
  bool allow_uninitialized = false;
  /// Allow tensors that are neither inputs nor named: they become constants.
  bool allow_constants = true;
  /// Record above autograd: composite operators (linear, matmul, conv2d) stay whole, and changes of
  /// grad mode are nodes. Not with `joint`.
  bool pre_dispatch = false;
  /// Sizes that may vary. The program is traced at several of them, and must do the same at each.
  std::vector<DynamicDim> dynamic_dims = {};
  /// Random numbers from a seed that is an input. No export can do that: it is refused.
  bool functionalize_random = false;
};

/// Traces `function` on `example`.
///
/// Throws `Error` with `kUnsupported` naming the operator if the program reads a value, has a
/// shape that depends on data, or uses memory that it filled through a raw pointer (with
/// `check_hidden_reads`, also if it does so without an operator), or does something else at some of
/// the sizes that `dynamic_dims` allow; with `kInvalidArgument` if `dynamic_dims` name no dimension
/// of an input, if it changes an input in a way that no functional graph can say (its geometry; one
/// of several inputs that share memory), if an input is a tensor of another kind (wrapped, batched,
/// nested), or if `joint` is asked for and the outputs do not allow it. What the function throws
/// passes through.
[[nodiscard]] ExportedProgram export_program(const TensorFunction& function,
                                             const Tensors& example,
                                             const ExportOptions& options = {});

/// The same, with names for tensors that `function` uses. All of them become inputs, used or not,
/// in this order, parameters first.
[[nodiscard]] ExportedProgram export_program(const TensorFunction& function,
                                             const std::vector<NamedTensor>& named,
                                             const Tensors& example,
                                             const ExportOptions& options = {});

/// Traces `forward`, which calls `module`, with the module's parameters and buffers by name.
[[nodiscard]] ExportedProgram export_module(const std::shared_ptr<torch::nn::Module>& module,
                                            const TensorFunction& forward,
                                            const Tensors& example,
                                            const ExportOptions& options = {});

/// Traces `function` and, if an example input requires grad, its gradients, without any calling
/// convention: the graph takes the inputs (then one tangent per output), and returns the outputs
/// (then one gradient per input, None where it does not depend on it).
///
/// Throws `Error` with `kInvalidArgument` if the function mutates an input or returns an alias of
/// one.
[[nodiscard]] ir::Graph export_joint_simple(const TensorFunction& function, const Tensors& example);

/// A program that was exported with `pre_dispatch`, traced again below autograd, as a compiler
/// takes it. Other programs come back as they are.
[[nodiscard]] ExportedProgram run_dispatch(ExportedProgram program);

/// `program` with its operators expanded down to core ATen, or to what `options` keep: what
/// `ExportedProgram.run_decompositions()` is in Python. Signature, weights and call spec stay.
[[nodiscard]] ExportedProgram run_decompositions(ExportedProgram program,
                                                 const ir::DecomposeOptions& options = {});

}  // namespace kiln::exporter
