// Locking a mutex that is held for a few instructions only. A thread that sleeps for it loses a
// thousand times as long, and with many cores on one container that is what they would do.

#pragma once

#include <mutex>

namespace kiln::container {

/// Lets the core rest for some nanoseconds, in a loop that waits for another thread.
void pause_core() noexcept;

/// Locks `mutex` after other threads; looks again a few times before it sleeps.
[[nodiscard]] std::unique_lock<std::mutex> lock_contended(std::mutex& mutex);

/// Locks `mutex`.
[[nodiscard]] inline std::unique_lock<std::mutex> lock_briefly(std::mutex& mutex) {
  if (mutex.try_lock()) [[likely]] {
    return {mutex, std::adopt_lock};
  }
  return lock_contended(mutex);
}

}  // namespace kiln::container
