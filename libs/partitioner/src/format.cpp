#include "format.hpp"

#include <array>
#include <cstdio>

#include "kiln/ir/print.hpp"

namespace kiln::partitioner {

std::string human_bytes(double bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  std::array<char, 32> text = {};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
  return text.data();
}

std::string short_type(const ir::ValueMeta& meta) {
  const auto* tensor = std::get_if<ir::TensorMeta>(&meta);
  if (tensor == nullptr) {
    return ir::print_type(meta);
  }
  ir::TensorMeta plain;
  plain.dtype = tensor->dtype;
  plain.sizes = tensor->sizes;
  plain.strides = ir::contiguous_strides(plain.sizes);
  return ir::print_type(plain);
}

}  // namespace kiln::partitioner
