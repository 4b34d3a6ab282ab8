// The names of the run-time arguments of hand-written kernels, for people.

#pragma once

#include <span>
#include <string_view>

#include "backend/backend.hpp"

namespace kiln::codegen {

/// The fields of `params`, a struct of kernels/*_params.hpp, in their order; those of a struct in
/// it as "query.batch". Read from the text of the header, so that they are written once.
[[nodiscard]] std::span<const LibraryField> argument_fields(std::string_view params);

}  // namespace kiln::codegen
