// Every text that a kernel may have which is told its sizes at run time.

#pragma once

#include <string>
#include <vector>

#include "kiln/codegen/target.hpp"

namespace kiln::codegen {

/// Those for `target`, as `Kernel::source` wants them; the same in every model (`Kernel::shared`).
[[nodiscard]] std::vector<std::string> shape_generic_sources(const Target& target);

}  // namespace kiln::codegen
