// How a tensor differs from what it should be.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace kiln::tool {

/// A difference between what was computed and what the interpreter says.
struct Difference {
  std::string value;  ///< Of the graph.
  /// "f32[3] instead of f32[4]" where element types or sizes differ; elements are not compared
  /// then.
  std::string form = {};
  double largest = 0;      ///< Absolute; infinite where one is NaN and the other is not.
  std::int64_t count = 0;  ///< Elements that differ by more than is allowed.
  std::int64_t first = 0;  ///< The first of them, in row-major order.
};

/// How `computed`, the value `name`, differs from `expected`, if it does. Elements may differ by
/// `tolerance` of their own size and of the tensor's largest: sums are added in another order.
/// Integers are compared exactly unless a tolerance is given.
[[nodiscard]] std::optional<Difference> compare(const std::string& name,
                                                const at::Tensor& computed,
                                                const at::Tensor& expected,
                                                std::optional<double> tolerance);

}  // namespace kiln::tool
