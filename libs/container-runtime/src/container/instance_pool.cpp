#include "container/instance_pool.hpp"

#include "container/brief_lock.hpp"

namespace kiln::container {
namespace {

// About a time slice of the system's scheduler: a thread that wants to run waits as long anyway.
constexpr std::chrono::milliseconds kPatience{4};

// About what a thread needs to fall asleep and wake up again.
constexpr std::chrono::microseconds kLook{50};

}  // namespace

Instance* InstancePool::wait(std::unique_lock<std::mutex>& lock) {
  Waiter self;
  append(self);
  while (true) {
    self.ready.wait(lock);
    self.is_told = false;
    if (self.granted == nullptr && free_ == nullptr && !self.insists &&
        Clock::now() - self.since > kPatience) {
      self.insists = !look_for_a_while(lock, self);
    }
    if (self.granted != nullptr) {
      return self.granted;  // whoever granted it removed us
    }
    if (Instance* instance = take(); instance != nullptr) {
      remove(self);
      // Two may have been freed before this thread woke up, which alone was told.
      wake_if_useful();
      return instance;
    }
  }
}

// Stays awake for the next instance that is freed; false if none was.
bool InstancePool::look_for_a_while(std::unique_lock<std::mutex>& lock, Waiter& self) {
  self.is_looking = true;
  lock.unlock();
  const Clock::time_point start = Clock::now();
  while (self.granted == nullptr && Clock::now() - start < kLook) {
    pause_core();
  }
  lock.lock();
  self.is_looking = false;
  return self.granted != nullptr;
}

void InstancePool::give_to_waiting(Instance* instance) noexcept {
  Waiter& waiter = *first_;
  const bool is_overdue = Clock::now() - waiter.since > kPatience;
  if (is_overdue && (waiter.is_looking || waiter.insists)) {
    remove(waiter);
    ++lent_;
    const bool is_asleep = !waiter.is_looking;
    waiter.granted = instance;
    if (is_asleep) {
      waiter.ready.notify_one();
    }
    return;
  }
  instance->next_free = free_;
  free_ = instance;
  if (is_overdue) {
    wake(waiter);
  } else {
    wake_if_useful();
  }
}

// Where it is not useful, those at work look again when they give back.
void InstancePool::wake_if_useful() noexcept {
  if (free_ != nullptr && first_ != nullptr && lent_ < useful_) {
    wake(*first_);
  }
}

void InstancePool::wake(Waiter& waiter) noexcept {
  if (!waiter.is_told && !waiter.is_looking) {
    waiter.is_told = true;
    waiter.ready.notify_one();
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
