// Whether two windows on one storage have an element in common, exactly.

#pragma once

#include <cstdint>

#include "kiln/autograd_dispatch/plan.hpp"

namespace kiln::autograd_dispatch {

/// Whether `a`, of elements of `a_bytes` bytes, and `b`, of `b_bytes`, share a byte.
///
/// Strides must not be negative. Exact for any number of dimensions; fast where strides nest, as
/// those of tensors do.
[[nodiscard]] bool overlap(const Geometry& a,
                           std::int64_t a_bytes,
                           const Geometry& b,
                           std::int64_t b_bytes);

}  // namespace kiln::autograd_dispatch
