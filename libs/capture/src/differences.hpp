// Where two recordings of one program are not the same.

#pragma once

#include <optional>
#include <string>

#include "kiln/capture/record.hpp"

namespace kiln::capture {

/// The first difference between `first` and `second`, as a sentence that names the operator, its
/// argument and where it is in the program; nothing if there is none.
///
/// Compared are operators in order, their arguments, the geometry of their results, the modes they
/// ran under, what is returned, and captured tensors: those that exist outside the program by
/// identity, those that it made by their elements.
[[nodiscard]] std::optional<std::string> first_difference(const Recording& first,
                                                          const Recording& second);

}  // namespace kiln::capture
