// What an archive lets vary and a trace on its sample inputs fixes, in words.

#pragma once

#include <string>
#include <vector>

#include "archived_program.hpp"

namespace kiln::exporter {

/// One sentence for each size and integer of the user's inputs that mentions a symbol and none of
/// those in `varying`: "input 'x', dimension 0: s0 in [2, 64], fixed at 4".
[[nodiscard]] std::vector<std::string> specialisations_of(const ArchivedProgram& program,
                                                          const ir::Ranges& varying);

}  // namespace kiln::exporter
