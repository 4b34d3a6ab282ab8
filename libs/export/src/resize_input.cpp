#include "resize_input.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace kiln::exporter {

at::Tensor resize_input(const at::Tensor& example, std::span<const std::int64_t> sizes) {
  const c10::AutoGradMode no_grad(false);
  at::Tensor resized = example;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto dimension = static_cast<std::int64_t>(i);
    const std::int64_t old = resized.size(dimension);
    if (old == sizes[i]) {
      continue;
    }
    if (resized.numel() == 0) {
      std::vector<std::int64_t> other = resized.sizes().vec();
      other[i] = sizes[i];
      resized = at::zeros(other, resized.options());
    } else {
      resized = resized.index_select(
          dimension,
          at::arange(sizes[i], at::dtype(at::kLong).device(resized.device())).remainder(old));
    }
  }
  if (resized.is_same(example)) {
    return example;
  }
  std::vector<std::int64_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](std::int64_t a, std::int64_t b) { return example.stride(a) > example.stride(b); });
  std::vector<std::int64_t> inverse(sizes.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return resized.permute(order).contiguous().permute(inverse).requires_grad_(
      example.requires_grad());
}

}  // namespace kiln::exporter
