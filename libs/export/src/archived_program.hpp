// What an archive says, before it is traced.

#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kiln/export/exported_program.hpp"
#include "pipeline.hpp"
#include "serialized_guards.hpp"
#include "serialized_types.hpp"

namespace kiln::exporter {

/// An integer among the user's inputs that is symbolic.
struct SymbolicInteger {
  std::string name;
  ir::Expr expr;
  std::int64_t value = 0;   ///< In the sample.
  std::uint32_t input = 0;  ///< Its position among the user's inputs.
  /// It varies as sizes do: while the program is traced, a vector of this length stands in for it.
  bool is_length = false;
};

/// A program in serialized form: JSON with its tensors. All of it is on the CPU.
struct ArchivedProgram {
  ir::DeviceType device = ir::DeviceType::kCpu;  ///< Where its tensors were.
  Json graph;                                    ///< schema.py's `Graph`.
  Json signature;                                ///< schema.py's `GraphSignature`.
  std::vector<OwnedTensor> owned;
  std::set<std::string> non_persistent_buffers;
  /// One per tensor that the user passes, and what stands in for each symbolic integer.
  Tensors sample_inputs;
  std::vector<std::string> input_names;  ///< Names of those.
  std::string in_spec, out_spec;
  std::vector<Leaf> input_leaves;
  std::vector<Leaf> output_leaves;
  ir::Ranges symbols;
  std::vector<std::vector<ir::Expr>> input_sizes;
  std::vector<SymbolicInteger> input_integers;
  ArchivedGuards guards;
  /// Expressions of symbols that its sizes and integers are, once each.
  std::vector<ir::Expr> expressions;
  /// Numbers that are computed from them in floating point, as they are.
  std::vector<ir::RealExpr> real_expressions;

  /// An integer that is returned, which has no counterpart here: sympy's text. Empty if there is
  /// none.
  std::string unread_result;

  /// Runs the graph on the user's inputs, with tensors that stand in for integers; updates owned
  /// tensors and inputs in place where the signature says so.
  [[nodiscard]] Tensors run(const Tensors& user_inputs) const;
};

/// Reads everything but the elements of the weights.
///
/// Throws as `load_program` does.
[[nodiscard]] ArchivedProgram read_archive(const std::filesystem::path& path);

}  // namespace kiln::exporter
