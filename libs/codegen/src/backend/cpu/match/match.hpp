// Which operators the CPU has kernels of its own for.

#pragma once

#include <optional>

#include "backend/backend.hpp"
#include "kiln/codegen/target.hpp"

namespace kiln::codegen {

/// `node` as a call of a kernel of `target`; nothing if there is none, or none that is faster than
/// libtorch. `winograd`: whether convolutions may be computed in tiles.
[[nodiscard]] std::optional<LibraryMatch> match_library_call(const MatchContext& context,
                                                             const ir::Node& node,
                                                             const Target& target,
                                                             bool winograd);

}  // namespace kiln::codegen
