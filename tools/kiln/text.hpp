// Numbers for people.

#pragma once

#include <string>

namespace kiln::tool {

/// "12.3 MB"
[[nodiscard]] std::string describe_bytes(double bytes);

}  // namespace kiln::tool
