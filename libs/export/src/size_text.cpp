#include "size_text.hpp"

#include <cstdint>
#include <limits>

namespace kiln::exporter {

std::string text_of(const ir::Bindings& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes) {
    text += (text.empty() ? "'" : ", '") + name + "' is " + std::to_string(size);
  }
  return text;
}

std::string text_of(const ir::Range& range) {
  // PyTorch's largest bound is one less than that of the integers.
  const bool bounded = range.high < std::numeric_limits<std::int64_t>::max() - 1;
  return "[" + std::to_string(range.low) + ", " +
         (bounded ? std::to_string(range.high) + "]" : "inf)");
}

}  // namespace kiln::exporter
