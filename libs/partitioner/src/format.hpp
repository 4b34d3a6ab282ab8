// Bytes and types as people write them.

#pragma once

#include <string>

#include "kiln/ir/graph.hpp"

namespace kiln::partitioner {

/// "12 B", "3.4 MiB".
[[nodiscard]] std::string human_bytes(double bytes);

/// "f32[8, 16]", "int(s0)": without strides, storage and whether it requires grad.
[[nodiscard]] std::string short_type(const ir::ValueMeta& meta);

}  // namespace kiln::partitioner
