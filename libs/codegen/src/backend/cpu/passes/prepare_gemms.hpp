// Matrix products in the form in which they are computed.

#pragma once

#include "kiln/codegen/target.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// `graph` with its matrix products as `GemmStrategist` chooses for `target`.
///
/// Weights, which a linear layer keeps with a row for each output, are packed if they are constants
/// (`bind_constants`) with a multiple of `Target::panel_width` columns: the product then is a
/// `kiln.packed_mm` (kiln/ir/packed_operators.hpp). `split_constants` packs them once. A package is
/// larger by that, so there is a limit to it, for each and for all together.
///
/// Other weights and batches are transposed where the library spends its time on arranging them
/// (`Target::blas_packs_slowly`), batches by a kernel. Biases of large products become sums where
/// one kernel reads the product.
[[nodiscard]] ir::Graph prepare_gemms(const ir::Graph& graph,
                                      const Target& target,
                                      bool bind_constants);

}  // namespace kiln::codegen
