// What kernels that are written for one node use threads for.

#pragma once

#include <cstdint>

namespace kiln::codegen {

/// Operations on one core that are worth more threads, as in other kernels 40 microseconds.
inline constexpr std::int64_t kParallelThreshold = 1'200'000;

/// Threads that have room of their own, where they need any.
inline constexpr std::int64_t kMostThreads = 64;

}  // namespace kiln::codegen
