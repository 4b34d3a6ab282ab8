// Sizes at which a program is traced to find out how it depends on them.

#pragma once

#include <functional>
#include <vector>

#include "kiln/ir/expr.hpp"

namespace kiln::exporter {

/// Sizes for every symbol of `ranges`, so different that an expression which is right at all of
/// them is right: primes, even numbers, multiples of 8 and of 64, small and large, in other
/// combinations each time. `hint`, if it is in range, is the first.
///
/// Sizes are at least 2, at most a few times the hint or 128, and `is_affordable`; 0, 1 and the
/// ends of ranges are for the caller to look at. There are fewer where ranges are narrow.
[[nodiscard]] std::vector<ir::Bindings> sample_sizes(
    const ir::Ranges& ranges,
    const ir::Bindings& hint,
    const std::function<bool(const ir::Bindings&)>& is_affordable);

}  // namespace kiln::exporter
