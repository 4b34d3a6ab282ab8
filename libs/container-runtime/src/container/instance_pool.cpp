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
  const auto shared = std::make_shared<Waiter>();
  Waiter& self = *shared;
  append(shared);
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
      const Wakeup next = wake_if_useful();
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

InstancePool::Wakeup InstancePool::give_to_waiting(Instance* instance) noexcept {
  const std::shared_ptr<Waiter> waiter = first_;
  const bool is_overdue = Clock::now() - waiter->since > kPatience;
  if (is_overdue && (waiter->is_looking || waiter->insists)) {
    remove(*waiter);
    ++lent_;
    waiter->granted = instance;
    return waiter->is_looking ? Wakeup() : Wakeup(waiter);
  }
  instance->next_free = free_;
  free_ = instance;
  return is_overdue ? wake_first() : wake_if_useful();
}

// Where it is not useful, those at work look again when they give back.
InstancePool::Wakeup InstancePool::wake_if_useful() noexcept {
  if (free_ == nullptr || first_ == nullptr || lent_ >= useful_) {
    return {};
  }
  return wake_first();
}

InstancePool::Wakeup InstancePool::wake_first() noexcept {
  if (first_->is_told || first_->is_looking) {
    return {};
  }
  first_->is_told = true;
  return Wakeup(first_);
}

void InstancePool::append(const std::shared_ptr<Waiter>& waiter) noexcept {
  waiter->previous = last_;
  (last_ != nullptr ? last_->next : first_) = waiter;
  last_ = waiter.get();
}

void InstancePool::remove(Waiter& waiter) noexcept {
  (waiter.next != nullptr ? waiter.next->previous : last_) = waiter.previous;
  // Last: this may be what holds it.
  (waiter.previous != nullptr ? waiter.previous->next : first_) = std::move(waiter.next);
}

}  // namespace kiln::container
