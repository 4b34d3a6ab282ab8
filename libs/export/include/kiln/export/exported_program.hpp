// A program that has left its source: a functional graph, the tensors it owns, and how it is
// called.
//
// It is plain data. Front ends make it (export.hpp, archive.hpp, script.hpp); nothing here runs it.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kiln/ir/expr.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::exporter {

/// The arguments or the results of a program.
using Tensors = std::vector<at::Tensor>;

/// One leaf of the structured arguments or results that a call spec describes.
struct Leaf {
  /// The position among the tensors that are passed or returned, or nothing: a constant.
  std::optional<std::uint32_t> tensor = std::nullopt;
  /// The constant as JSON: `2.0`, `"mean"`, `null`. Empty for a tensor.
  std::string constant = {};
  /// For a result that is an integer and varies with the symbols of the graph: what it is. The
  /// constant is its value for the sample inputs.
  std::optional<ir::Expr> size = std::nullopt;

  bool operator==(const Leaf&) const = default;  ///< Member by member.
};

/// What the gradients of a joint graph belong to (EX-22). All by name of the graph's values.
struct BackwardSignature {
  std::map<std::string, std::string> gradients_to_parameters;   ///< Output to parameter.
  std::map<std::string, std::string> gradients_to_user_inputs;  ///< Output to input.
  /// The loss itself. PyTorch names the output at the loss index among *all* outputs, which is an
  /// updated buffer when there is one; this is always the loss.
  std::string loss_output;
};

/// The roles of a graph's inputs and outputs, in the terms of PyTorch's graph signature (EX-20).
///
/// "Inputs" and "outputs" are names of the graph's values; parameters and buffers have the user's
/// names.
struct GraphSignature {
  std::vector<std::string> parameters;                       ///< In the order of the inputs.
  std::vector<std::string> buffers;                          ///< Likewise.
  std::vector<std::string> user_inputs;                      ///< Likewise.
  std::vector<std::string> user_outputs;                     ///< "" for an output that is None.
  std::map<std::string, std::string> inputs_to_parameters;   ///< Input to parameter.
  std::map<std::string, std::string> inputs_to_buffers;      ///< Input to buffer.
  std::map<std::string, std::string> inputs_to_constants;    ///< Input to constant.
  std::map<std::string, std::string> buffers_to_mutate;      ///< Output to buffer.
  std::map<std::string, std::string> parameters_to_mutate;   ///< Output to parameter.
  std::map<std::string, std::string> user_inputs_to_mutate;  ///< Output to input.
  std::string in_spec;                                       ///< How arguments are nested.
  std::string out_spec;                                      ///< How results are nested.
  std::optional<BackwardSignature> backward;                 ///< Of a joint graph.
};

/// A traced program.
///
/// Graph inputs: parameters, buffers, constants, then the user's tensors. Graph outputs: updated
/// inputs (`kMutation`, in input order), then the user's (`kUser`), then gradients (`kGradient`) if
/// it is a joint graph.
struct ExportedProgram {
  ir::Graph graph;  ///< Functional.
  /// The tensor of every parameter, buffer and constant, by `ir::Input::name`.
  std::map<std::string, at::Tensor> weights;
  /// Buffers that a state dict leaves out.
  std::set<std::string> non_persistent_buffers;
  /// What the program was traced on, one for each user input.
  Tensors sample_inputs;
  /// How arguments and results are nested: the JSON of PyTorch's `treespec_dumps`.
  std::string in_spec;
  std::string out_spec;  ///< Of the results.
  /// The leaves of the two specs, in order.
  std::vector<Leaf> input_leaves;
  std::vector<Leaf> output_leaves;  ///< Of the results.
  /// Symbols of dynamic dimensions with their ranges, as an archive brings them along.
  ir::Ranges symbols;
  /// Sizes of each user input where they mention symbols; empty where none does.
  std::vector<std::vector<ir::Expr>> input_sizes;
  /// What an archive lets vary and the graph has fixed, in words, one for each size: "input 'x',
  /// dimension 0: s0 in [2, 64], fixed at 4". Then why, and which symbols vary less than the
  /// archive says: "'s0' in [2, 512], not [1, 512]: …".
  std::vector<std::string> specialisations;
  /// How often the program was traced, at whatever sizes.
  int traces = 0;
  /// Position of the loss among the user's outputs, if it is a joint graph.
  std::optional<std::uint32_t> loss_index;
  /// Whether it was recorded above autograd.
  bool pre_dispatch = false;

  [[nodiscard]] GraphSignature signature() const;  ///< The roles of inputs and outputs, by name.

  /// One tensor per graph input: the weights, then `user_inputs`.
  ///
  /// Throws `Error` with `kInvalidArgument` if their number is wrong.
  [[nodiscard]] Tensors graph_inputs(const Tensors& user_inputs) const;
};

/// The call spec of a function of `inputs` tensors, `(t0, t1, …)` and no keyword arguments.
[[nodiscard]] std::string flat_in_spec(std::size_t inputs);
/// The call spec of a function that returns a tuple of `outputs` tensors; of a bare tensor, if
/// `outputs` is 1.
[[nodiscard]] std::string flat_out_spec(std::size_t outputs);

}  // namespace kiln::exporter
