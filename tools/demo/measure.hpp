// Times that can be compared: the candidates take turns in short slices, so a noisy machine hurts
// all alike.

#pragma once

#include <functional>
#include <vector>

namespace kiln::demo {

/// Milliseconds that one call of `work` takes.
[[nodiscard]] double once(const std::function<void()>& work);

/// Milliseconds per call of each candidate, the best of `slices` slices of about `slice_ms` each.
[[nodiscard]] std::vector<double> alternate(const std::vector<std::function<void()>>& candidates,
                                            int slices = 12,
                                            double slice_ms = 60);

}  // namespace kiln::demo
