// The free instances of a model and the threads that wait for one.
//
// Waiting is fair in the end, not at every step: a freed instance goes to whoever asks first, which
// keeps it busy while a sleeping thread wakes up, until the first in the queue has waited for long.
// Then it is handed over. Every member is called with the container's mutex held.

#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace kiln::container {

/// One instance of the model: the pointer that its `create` gave.
struct Instance {
  void* self = nullptr;
  Instance* next_free = nullptr;
};

/// Lends instances to threads.
class InstancePool {
 public:
  /// Returns a free instance, or null.
  Instance* take() noexcept {
    Instance* instance = free_;
    if (instance != nullptr) {
      free_ = instance->next_free;
    }
    return instance;
  }

  /// Waits on `lock`, the container's mutex, until there is one.
  Instance* wait(std::unique_lock<std::mutex>& lock);

  void give_back(Instance* instance) noexcept {
    if (first_ != nullptr) [[unlikely]] {
      give_to_waiting(instance);
      return;
    }
    instance->next_free = free_;
    free_ = instance;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // On the stack of the thread that waits.
  struct Waiter {
    std::condition_variable ready;
    Clock::time_point since = Clock::now();
    Instance* granted = nullptr;
    Waiter* previous = nullptr;
    Waiter* next = nullptr;
  };

  void give_to_waiting(Instance* instance) noexcept;
  void append(Waiter& waiter) noexcept;
  void remove(Waiter& waiter) noexcept;

  Instance* free_ = nullptr;
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

}  // namespace kiln::container
