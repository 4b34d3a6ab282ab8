// What kernels of products have in common.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "panel_product.hpp"

namespace kiln::codegen {

/// `constexpr Index name = value;`
[[nodiscard]] std::string index_constant(std::string_view name, std::int64_t value);

/// The beginning of a kernel: where everything lies, as constants, `smaller`, and `pack`, which
/// lays lines side by side. `deep` is how much of the depth is multiplied at once.
[[nodiscard]] std::string product_prologue(const PanelLayout& layout, std::int64_t deep);

/// The function's head, with its operands: left, right, added, result and packed.
[[nodiscard]] std::string product_entry(const PanelLayout& layout);

/// Whether a product is worth more threads.
[[nodiscard]] bool is_parallel(const PanelLayout& layout);

/// `text` with each `what` replaced.
[[nodiscard]] std::string replaced(std::string_view text,
                                   std::string_view what,
                                   std::string_view by);

}  // namespace kiln::codegen
