// Numbers for people.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kiln::tool {

/// "12.3 MB"
[[nodiscard]] std::string describe_bytes(double bytes);

/// "1 kernel", "2 kernels"
[[nodiscard]] std::string describe_count(std::size_t count, std::string_view noun);

}  // namespace kiln::tool
