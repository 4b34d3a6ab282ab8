#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "kiln/container_runtime/runner.hpp"

namespace kiln::container_runtime {

void LatencyHistogram::add(std::chrono::nanoseconds latency) {
  const auto nanoseconds = static_cast<std::uint64_t>(std::max<std::int64_t>(latency.count(), 1));
  ++buckets[std::min<std::size_t>(std::bit_width(nanoseconds) - 1, buckets.size() - 1)];
}

std::chrono::nanoseconds LatencyHistogram::percentile(double share) const {
  const auto total = std::accumulate(buckets.begin(), buckets.end(), std::size_t{0});
  const auto wanted = static_cast<std::size_t>(std::ceil(share * static_cast<double>(total)));
  std::size_t seen = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    seen += buckets[i];
    if (seen >= wanted && seen > 0) {
      return std::chrono::nanoseconds(std::int64_t{1} << (i + 1));
    }
  }
  return {};
}

}  // namespace kiln::container_runtime
