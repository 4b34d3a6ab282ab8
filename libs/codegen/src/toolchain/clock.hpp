// How long stages take, for the report.

#pragma once

#include <chrono>

namespace kiln::codegen {

using Clock = std::chrono::steady_clock;

inline double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace kiln::codegen
