// Which results of a program autograd can differentiate by which of its inputs.

#pragma once

#include <cstdint>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"

namespace kiln::autograd_dispatch {

/// For each of `targets` the positions of those of `results` from which a path through autograd's
/// graph leads to it.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> reached_by(const Tensors& results,
                                                                 const Tensors& targets);

}  // namespace kiln::autograd_dispatch
