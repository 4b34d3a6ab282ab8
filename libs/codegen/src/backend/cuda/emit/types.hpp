// The types of a CUDA kernel, and what depends on them alone, as text.

#pragma once

#include <string>
#include <string_view>

#include "kiln/ir/types.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen::cuda {

/// What elements of `dtype` are computed in: "float".
[[nodiscard]] std::string_view compute_type(ir::DType dtype);
/// How they lie in memory: "BFloat16". Where that is another type, the prelude has `value(x)` and
/// `stored<BFloat16>(x)`, which convert.
[[nodiscard]] std::string_view memory_type(ir::DType dtype);
/// A constant.
[[nodiscard]] std::string literal(const Scalar& constant);

/// The prelude's struct that combines two values: "Sum".
[[nodiscard]] std::string_view combiner(Reduction reduction);
/// What a reduction of values of `dtype` begins with.
[[nodiscard]] std::string neutral(Reduction reduction, ir::DType dtype);

}  // namespace kiln::codegen::cuda
