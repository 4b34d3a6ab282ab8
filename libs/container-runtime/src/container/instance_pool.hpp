// The free instances of a model and the threads that wait for one.
//
// Waiting is fair in the end, not at every step. A freed instance goes to whoever asks first, which
// is mostly the thread that freed it and is awake; a sleeping thread is woken only if the threads
// at work are fewer than can be of use, or once it has waited for longer than `kPatience`. Then it
// is handed the next instance that is freed, but only when it is awake: an instance that is handed
// to a sleeping thread lies idle until it wakes. Only where calls take so long that the thread goes
// back to sleep meanwhile is it handed one asleep. Every member is called with the container's
// mutex held.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "container/device.hpp"

namespace kiln::container {

/// The place of an instance of the model: the pointer that its `create` gave, or null after a
/// capture has taken it.
struct Instance {
  void* self = nullptr;
  DeviceEvent finished;
  Instance* next_free = nullptr;
};

/// Lends instances to threads.
class InstancePool {
  using Clock = std::chrono::steady_clock;

  // A thread that waits. Whoever wakes it shares it, and may do so after the thread has left.
  struct Waiter {
    std::condition_variable ready;
    Clock::time_point since = Clock::now();
    std::atomic<Instance*> granted = nullptr;
    bool is_told = false;     // woken, and has not looked yet
    bool is_looking = false;  // awake, and will see at once what it is granted
    bool insists = false;     // has looked in vain: is granted one asleep
    Waiter* previous = nullptr;
    std::shared_ptr<Waiter> next = nullptr;
  };

 public:
  /// Wakes a thread, or none, when it is destroyed: after the mutex was unlocked, or all who want
  /// it would wait for a call of the system.
  class [[nodiscard]] Wakeup {
   public:
    Wakeup() = default;
    explicit Wakeup(std::shared_ptr<Waiter> waiter) noexcept : waiter_(std::move(waiter)) {}
    Wakeup(Wakeup&&) noexcept = default;
    Wakeup& operator=(Wakeup&&) noexcept = default;
    ~Wakeup() {
      if (waiter_ != nullptr) [[unlikely]] {
        waiter_->ready.notify_one();
      }
    }

   private:
    std::shared_ptr<Waiter> waiter_;
  };

  /// More than `useful` instances at work do not finish more of it.
  explicit InstancePool(std::size_t useful) noexcept : useful_(useful) {}

  /// Returns a free instance, or null.
  Instance* take() noexcept {
    Instance* instance = free_;
    if (instance != nullptr) {
      free_ = instance->next_free;
      ++lent_;
    }
    return instance;
  }

  /// Counts an instance that the caller made and has.
  void add_lent() noexcept { ++lent_; }

  /// Waits on `lock`, the container's mutex, until there is one.
  Instance* wait(std::unique_lock<std::mutex>& lock);

  Wakeup give_back(Instance* instance) noexcept {
    --lent_;
    if (first_ != nullptr) [[unlikely]] {
      return give_to_waiting(instance);
    }
    instance->next_free = free_;
    free_ = instance;
    return {};
  }

  /// How many are at work.
  [[nodiscard]] std::size_t lent() const noexcept { return lent_; }

 private:
  Wakeup give_to_waiting(Instance* instance) noexcept;
  static bool look_for_a_while(std::unique_lock<std::mutex>& lock, Waiter& self);
  Wakeup wake_if_useful() noexcept;
  Wakeup wake_first() noexcept;
  void append(const std::shared_ptr<Waiter>& waiter) noexcept;
  void remove(Waiter& waiter) noexcept;

  const std::size_t useful_;
  std::size_t lent_ = 0;
  Instance* free_ = nullptr;
  std::shared_ptr<Waiter> first_;
  Waiter* last_ = nullptr;
};

}  // namespace kiln::container
