// A plan as bytes, for a cache.

#pragma once

#include <string>
#include <string_view>

#include "kiln/autograd_dispatch/plan.hpp"

namespace kiln::autograd_dispatch {

/// All of `plan`. The same plan gives the same bytes on every machine.
[[nodiscard]] std::string to_bytes(const Plan& plan);

/// The inverse. Throws `Error` with `kCorrupt` if `bytes` are not a plan of this version.
[[nodiscard]] Plan plan_from_bytes(std::string_view bytes);

}  // namespace kiln::autograd_dispatch
