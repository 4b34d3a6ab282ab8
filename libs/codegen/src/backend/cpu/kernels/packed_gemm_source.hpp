// The text of products by panels, which is told everything about a product but how wide a panel is.

#pragma once

#include <cstdint>
#include <string>

namespace kiln::codegen {

/// Rows of a tile, at most: with two vectors of a panel they need sixteen registers, which hides
/// how long an addition takes. AVX-512 takes factors from memory, and has registers for more.
[[nodiscard]] std::int64_t most_tile_rows(std::int64_t lanes);

/// The kernel for panels of `width` columns in vectors of `lanes`, as `KernelSource::source` is. It
/// takes left side, right side, what is added if anything is, result, and room for the left side if
/// that is packed; and the sizes that `plan_packed_gemm` says.
[[nodiscard]] std::string packed_gemm_source(std::int64_t lanes, std::int64_t width);

}  // namespace kiln::codegen
