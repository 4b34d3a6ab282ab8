#include "container/instance_pool.hpp"

namespace kiln::container {
namespace {

// About a time slice of the system's scheduler: a thread that wants to run waits as long anyway.
constexpr std::chrono::milliseconds kPatience{4};

}  // namespace

Instance* InstancePool::wait(std::unique_lock<std::mutex>& lock) {
  Waiter self;
  append(self);
  while (true) {
    self.ready.wait(lock);
    if (self.granted != nullptr) {
      return self.granted;  // whoever granted it removed us
    }
    self.told = false;
    if (Instance* instance = take(); instance != nullptr) {
      remove(self);
      // Two may have been freed before this thread woke up, which alone was told.
      wake_if_useful();
      return instance;
    }
  }
}

void InstancePool::give_to_waiting(Instance* instance) noexcept {
  Waiter& waiter = *first_;
  if (Clock::now() - waiter.since > kPatience) {
    remove(waiter);
    waiter.granted = instance;
    ++lent_;
    waiter.ready.notify_one();
    return;
  }
  instance->next_free = free_;
  free_ = instance;
  wake_if_useful();
}

// Where it is not useful, those at work look again when they give back.
void InstancePool::wake_if_useful() noexcept {
  if (free_ != nullptr && first_ != nullptr && !first_->told && lent_ < useful_) {
    first_->told = true;
    first_->ready.notify_one();
  }
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
