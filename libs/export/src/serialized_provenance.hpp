// Where a node of an archive came from.

#pragma once

#include <string>

#include "serialized_types.hpp"

namespace kiln::exporter {

/// "encoder.layer.0": the innermost module that `node` ran in; empty if the archive does not say.
[[nodiscard]] std::string module_path_of(const Json& node);

/// "model.py:42": the innermost line that `node` was made by; empty if the archive does not say.
[[nodiscard]] std::string source_of(const Json& node);

}  // namespace kiln::exporter
