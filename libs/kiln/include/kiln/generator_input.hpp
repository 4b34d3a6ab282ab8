// What the code generator is given of a program that becomes a package.

#pragma once

#include <string>
#include <vector>

#include "kiln/codegen/compile.hpp"
#include "kiln/export/exported_program.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln {

/// The program's graph with an output for each leaf of its results, as its call spec counts them:
/// None is one without a value, and a number a tensor without dimensions, as in AOTInductor's
/// packages.
///
/// Throws `Error` with `kUnsupported` for a leaf that is neither.
[[nodiscard]] ir::Graph with_all_outputs(const exporter::ExportedProgram& program);

/// The call spec of its inputs, as a package has it: integers and what was fixed when the program
/// was exported say what they are.
[[nodiscard]] std::string input_spec_of(const exporter::ExportedProgram& program);

/// The weights of a program.
struct Weights {
  std::vector<codegen::ConstantData> data;  ///< In the order of the graph's constant inputs.
  std::vector<at::Tensor> owners;           ///< Of the bytes, in the same order.
};

/// The weights that the graph of `program` reads.
///
/// Throws `Error`: `kInvalidArgument` if one is missing, `kUnsupported` if one is not a dense
/// tensor on the CPU.
[[nodiscard]] Weights weights_of(const exporter::ExportedProgram& program);

}  // namespace kiln
