#include "measure.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace kiln::demo {

double once(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

std::vector<double> alternate(const std::vector<std::function<void()>>& candidates,
                              int slices,
                              double slice_ms) {
  std::vector<int> calls;
  for (const auto& candidate : candidates) {
    candidate();
    calls.push_back(std::max(1, static_cast<int>(slice_ms / std::max(once(candidate), 1e-3))));
  }
  std::vector<double> best(candidates.size(), std::numeric_limits<double>::max());
  for (int slice = 0; slice < slices; ++slice) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const double taken = once([&] {
        for (int call = 0; call < calls[i]; ++call) {
          candidates[i]();
        }
      });
      best[i] = std::min(best[i], taken / calls[i]);
    }
  }
  return best;
}

}  // namespace kiln::demo
