// Matrix products of half types, which the container computes by cuBLASLt.

#pragma once

#include <optional>
#include <string>

#include "backend/backend.hpp"

namespace kiln::codegen::cuda {

/// `LibraryCall::operation` of a product.
inline constexpr const char* kProduct = "product";

/// `node` as a product with what follows it in its epilogue: `mm`, `addmm` with a bias for each
/// column, `_addmm_activation`. Nothing for other operators and types, and where the operands do
/// not lie in rows or columns; those are libtorch's.
[[nodiscard]] std::optional<LibraryMatch> match_product(const MatchContext& context,
                                                        const ir::Node& node);

/// The launcher of all products.
[[nodiscard]] std::string product_launcher();

/// What a unit with that launcher declares.
[[nodiscard]] std::string product_declarations();

}  // namespace kiln::codegen::cuda
