// Bytes as people write them.

#pragma once

#include <string>

namespace kiln::partitioner {

/// "12 B", "3.4 MiB".
[[nodiscard]] std::string human_bytes(double bytes);

}  // namespace kiln::partitioner
