#include "container/brief_lock.hpp"

namespace kiln::container {
namespace {

// About two microseconds in all.
constexpr int kMostPauses = 32;

}  // namespace

void pause_core() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // waits longer than `yield`, which most cores skip
#endif
}

std::unique_lock<std::mutex> lock_contended(std::mutex& mutex) {
  for (int pauses = 1; pauses <= kMostPauses; pauses *= 2) {
    for (int i = 0; i < pauses; ++i) {
      pause_core();
    }
    if (mutex.try_lock()) {
      return {mutex, std::adopt_lock};
    }
  }
  return std::unique_lock(mutex);
}

}  // namespace kiln::container
