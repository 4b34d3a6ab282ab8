// Chooses which dimensions of inputs become symbols.

#pragma once

#include <string>
#include <vector>

#include "guards.hpp"
#include "integer_history.hpp"
#include "kiln/export/dynamic_dims.hpp"
#include "kiln/jit/function.hpp"
#include "kiln/jit/options.hpp"

namespace kiln {

/// The dimensions of a call's inputs that may vary: those that `options` declare; with `dynamic`,
/// every dimension of more than one element; with `automatic_dynamic`, those that had another size
/// in one of the calls `seen`, whose inputs have the same ranks. Dimensions of equal size in all
/// calls share a symbol. The last `integers` inputs stand for integers, which cannot be declared.
/// Only those that `history` lets vary are symbols; null if the function may be called with any
/// integer.
///
/// Throws `Error` with `kInvalidArgument` if a declaration does not fit the call.
[[nodiscard]] exporter::DynamicShapes dynamic_shapes(
    const CompileOptions& options,
    const Tensors& inputs,
    std::size_t integers,
    const std::vector<const std::vector<TensorGuard>*>& seen,
    const IntegerHistory* history);

/// `ranges`, limited to what traces explore: sizes up to a few times those of `inputs`, and
/// integers within the range of `history`. `input_sizes` are the expressions of the sizes of
/// `inputs`.
[[nodiscard]] ir::Ranges clamp_to_traced_range(
    ir::Ranges ranges,
    const std::vector<std::vector<ir::Expr>>& input_sizes,
    const Tensors& inputs,
    const IntegerHistory* history);

}  // namespace kiln
