// What a model computes from its constants alone, computed when the model is written.

#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "kiln/codegen/compile.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln {

/// Whether the input is a constant of a program that binds them.
[[nodiscard]] bool is_constant(const ir::Input& input);

/// The values that `codegen::Report::folding` gives.
class FoldedConstants {
 public:
  /// `folding`: its text; nothing is computed if it is empty. `constants`: those of the program.
  FoldedConstants(const std::string& folding, std::span<const codegen::ConstantData> constants);

  /// Their bytes, which live as long as this.
  [[nodiscard]] const std::vector<codegen::ConstantData>& data() const { return data_; }

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<codegen::ConstantData> data_;
};

}  // namespace kiln
