// Dimensions that a user lets vary, as symbols.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "dynamic_trace.hpp"
#include "kiln/export/export.hpp"

namespace kiln::exporter {

/// What `dims` say of inputs like `example`, which are called `names` where they have a name.
///
/// Throws `Error` with `kInvalidArgument` for one that is no dimension of an input, has a name that
/// is no expression of one symbol, or that the example's size contradicts.
[[nodiscard]] DynamicShapes dynamic_shapes_of(std::span<const DynamicDim> dims,
                                              const Tensors& example,
                                              std::span<const std::string> names);

}  // namespace kiln::exporter
