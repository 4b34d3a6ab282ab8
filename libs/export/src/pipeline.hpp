// What every front end does after the program has run: names, roles, functional form.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kiln/capture/record.hpp"
#include "kiln/export/exported_program.hpp"

namespace kiln::exporter {

/// A tensor that the program owns.
struct OwnedTensor {
  std::string name;
  at::Tensor tensor;
  ir::InputKind kind = ir::InputKind::kParameter;
};

/// What a gradient belongs to: a position among the owned tensors, or among the user's inputs.
struct GradientOf {
  bool is_user = false;
  std::size_t index = 0;
};

/// A program that has run, and what is known about it.
struct Trace {
  capture::Recording recording;
  std::vector<OwnedTensor> owned;
  /// One for each of the last outputs of the recording; the others are the user's.
  std::vector<GradientOf> gradients = {};
  std::vector<std::string> input_names = {};
};

/// Sorts the inputs of `trace` by role and makes its graph functional. Captured tensors that nobody
/// owns become constants.
///
/// Gives the graph, the weights, and the specs of a flat list of tensors. Throws `kInvalidArgument`
/// for changes of inputs that no functional graph can say (EX-28 to EX-31).
[[nodiscard]] ExportedProgram assemble(Trace trace, const Tensors& example);

/// Throws `kInvalidArgument` if `graph`, as recorded, changes an input's geometry, or the data of
/// one of several inputs that share memory; with `gradients`, also if it changes one that requires
/// grad.
void check_mutations(const ir::Graph& graph, bool gradients);

}  // namespace kiln::exporter
