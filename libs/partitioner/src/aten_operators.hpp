// The families that the default cost model sorts ATen's operators into.

#pragma once

#include <string_view>

namespace kiln::partitioner {

/// "aten.add" for "aten.add.Tensor": the name that overloads share.
[[nodiscard]] std::string_view family_of(std::string_view target);

/// Families that are cheap to run twice: pointwise, generators of constants, indexing, reductions
/// that fuse with what is around them.
[[nodiscard]] bool is_cheap_family(std::string_view family);

/// Products, convolutions, attention.
[[nodiscard]] bool is_product_family(std::string_view family);

/// Random families that fuse like pointwise ones. They are never run twice.
[[nodiscard]] bool is_random_pointwise_family(std::string_view family);

}  // namespace kiln::partitioner
