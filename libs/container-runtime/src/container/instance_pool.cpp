#include "container/instance_pool.hpp"

namespace kiln::container {
namespace {

// About what a sleeping thread needs to wake up, times ten.
constexpr std::chrono::microseconds kPatience{500};

}  // namespace

Instance* InstancePool::wait(std::unique_lock<std::mutex>& lock) {
  Waiter self;
  append(self);
  self.ready.wait(lock, [&] { return self.granted != nullptr || free_ != nullptr; });
  if (self.granted != nullptr) {
    return self.granted;  // whoever granted it removed us
  }
  remove(self);
  Instance* instance = take();
  // Two may have been freed before the first in the queue woke up, which alone was told.
  if (free_ != nullptr && first_ != nullptr) {
    first_->ready.notify_one();
  }
  return instance;
}

void InstancePool::give_to_waiting(Instance* instance) noexcept {
  Waiter& waiter = *first_;
  if (Clock::now() - waiter.since > kPatience) {
    remove(waiter);
    waiter.granted = instance;
  } else {
    instance->next_free = free_;
    free_ = instance;
  }
  waiter.ready.notify_one();
}

void InstancePool::append(Waiter& waiter) noexcept {
  waiter.previous = last_;
  (last_ != nullptr ? last_->next : first_) = &waiter;
  last_ = &waiter;
}

void InstancePool::remove(Waiter& waiter) noexcept {
  (waiter.previous != nullptr ? waiter.previous->next : first_) = waiter.next;
  (waiter.next != nullptr ? waiter.next->previous : last_) = waiter.previous;
}

}  // namespace kiln::container
