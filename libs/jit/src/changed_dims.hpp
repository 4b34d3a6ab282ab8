// Which dimensions of inputs are to be symbols.

#pragma once

#include <string>
#include <vector>

#include "guards.hpp"
#include "integer_history.hpp"
#include "kiln/export/dynamic_dims.hpp"
#include "kiln/jit/function.hpp"
#include "kiln/jit/options.hpp"

namespace kiln {

/// What of the inputs of a call may vary: what `options` declare; with `dynamic` every dimension of
/// more than one element; and with `automatic_dynamic` those whose size was another in one of
/// `seen`, calls with inputs of the same ranks. Sizes that were equal in all calls are one symbol.
/// Of the inputs that stand for integers of `history`, only those that can vary are symbols; null
/// if the function may be called with any integer.
///
/// Throws `Error` with `kInvalidArgument` if a declaration does not fit the call.
[[nodiscard]] exporter::DynamicShapes dynamic_shapes(
    const CompileOptions& options,
    const Tensors& inputs,
    const std::vector<const std::vector<TensorGuard>*>& seen,
    const IntegerHistory* history);

/// `ranges` as far as traces reach, with symbols that are at most a few times as large as the sizes
/// of `inputs`, which `input_sizes` are the expressions of, and integers between those of
/// `history`.
[[nodiscard]] ir::Ranges clamp_to_traced_range(
    ir::Ranges ranges,
    const std::vector<std::vector<ir::Expr>>& input_sizes,
    const Tensors& inputs,
    const IntegerHistory* history);

}  // namespace kiln
