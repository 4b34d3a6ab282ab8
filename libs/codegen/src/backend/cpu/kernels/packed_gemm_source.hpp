// Source of the packed GEMM; only the panel width is a compile-time constant.

#pragma once

#include <cstdint>
#include <string>

namespace kiln::codegen {

/// Rows of a tile, at most: with two vectors of a panel they need sixteen registers, which hides
/// how long an addition takes. AVX-512 takes factors from memory, and has registers for more.
[[nodiscard]] std::int64_t max_tile_rows(std::int64_t lanes);

/// The kernel for panels of `width` columns in vectors of `lanes`, in the form of
/// `KernelSource::source`. It takes lhs, rhs, the addend if there is one, result, and workspace for
/// the packed lhs if it is packed; and the sizes that `plan_packed_gemm` lists.
[[nodiscard]] std::string packed_gemm_source(std::int64_t lanes, std::int64_t width);

}  // namespace kiln::codegen
