// A convolution of a graph by the names of its arguments.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::codegen::cuda {

/// `aten.convolution`, not transposed.
struct Convolution {
  ir::ValueId input;
  ir::ValueId weight;
  ir::ValueId bias;  ///< Invalid if there is none.
  ir::ValueId result;
  std::vector<ir::Expr> stride;
  std::vector<ir::Expr> padding;
  std::vector<ir::Expr> dilation;
  std::int64_t groups = 1;
  std::int64_t channels = 0;   ///< Of the input; 0 if they vary.
  std::int64_t filters = 0;    ///< Channels of the result; 0 if they vary.
  bool is_half = false;        ///< bfloat16 or float16.
  bool is_image = false;       ///< Two dimensions besides batch and channels.
  bool channels_last = false;  ///< The input and the result lie so.
};

/// `node` as one; nothing if it is none.
[[nodiscard]] std::optional<Convolution> find_convolution(const ir::Graph& graph,
                                                          const ir::Node& node);

}  // namespace kiln::codegen::cuda
