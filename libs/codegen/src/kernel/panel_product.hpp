// Matrix products with a packed right side, [panels, depth, kPanelWidth], as kernels.
//
// `turn_operands` (prepare/products.hpp) writes such products as batches whose left sides are all
// the same matrix. Libraries pack both sides in each call; here the left side alone is packed,
// which is little work for few rows.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kiln/codegen/target.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// A product of panels in a graph.
struct PanelProduct {
  ir::ValueId left;   ///< [rows, depth], before it was repeated.
  ir::ValueId right;  ///< [panels, depth, kPanelWidth]
  ir::ValueId added;  ///< [panels, rows or 1, kPanelWidth]; may be invalid.
  ir::ValueId result;
};

/// `node` as a product of panels, if it is one.
[[nodiscard]] std::optional<PanelProduct> find_panel_product(const ir::Graph& graph,
                                                             const ir::Node& node);

/// Where the elements of a product lie, in elements; columns of a panel are side by side.
struct PanelLayout {
  std::int64_t rows = 0;
  std::int64_t depth = 0;
  std::int64_t panels = 0;
  std::int64_t left_row = 0;
  std::int64_t left_depth = 0;
  std::int64_t added_panel = 0;
  std::int64_t added_row = 0;
  std::int64_t result_panel = 0;
  std::int64_t result_row = 0;
  bool adds = false;

  /// Elements of scratch that the kernel packs the left side into.
  [[nodiscard]] std::int64_t scratch() const;
};

/// The kernel, as `Kernel::source` wants it. It takes left, right, added if it adds, the result and
/// the scratch.
[[nodiscard]] std::string emit_panel_product(const PanelLayout& layout, const Target& target);

}  // namespace kiln::codegen
