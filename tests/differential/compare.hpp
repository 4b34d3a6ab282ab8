// Whether two tensors are the same, and if not, where.

#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

namespace kiln::differential {

/// How close floating results must come. Integers and bools are always equal, and NaN equals NaN.
/// Zeros have the same sign, but for what `kAnyZero` and the sums say.
enum class Closeness {
  kExact,    ///< The same bits: what only moves or converts elements, and what is rounded once.
  kRounded,  ///< The same, but for half and bfloat16, where ATen rounds scalars first or not.
  kAnyZero,  ///< The same, but of two zeros ATen's vectors choose one and its scalars the other.
  kClose,    ///< A few units in the last place: math functions.
  kSum,      ///< Rounding of a sum of terms as large as the largest result, in any order.
  kChain,    ///< After many operators in a row, all in double; strides may differ.
  kNarrowChain,  ///< After many operators in a row, some in float.
};

/// What is different, in words; nothing if `found` will do for `expected`. Types, sizes and, but
/// for dims of size 1 and empty tensors, strides count too.
[[nodiscard]] std::optional<std::string> difference(const at::Tensor& expected,
                                                    const at::Tensor& found,
                                                    Closeness closeness);

}  // namespace kiln::differential
