// A stopwatch for reports.

#pragma once

#include <chrono>

namespace kiln {

/// Runs from its construction on.
class Stopwatch {
 public:
  /// The time since then.
  [[nodiscard]] double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace kiln
