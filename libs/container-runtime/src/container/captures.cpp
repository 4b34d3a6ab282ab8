// Runs that become part of a graph. Each has an instance of the model of its own, because a graph
// may be replayed at any time and cannot wait for other runs.

#include <mutex>
#include <utility>

#include "container/container.hpp"
#include "container/failure.hpp"

namespace kiln::container {

void* Container::run_captured(AtenTensorHandle const* inputs,
                              AtenTensorHandle* outputs,
                              Stream stream) {
  const NoGrad no_grad;
  const DeviceScope scope(device_, stream.stream);
  void* const instance = instance_for_capture();
  try {
    const ConstantsInUse constants(*this);
    KilnCall call{inputs,
                  outputs,
                  constants->handles(),
                  constants->data(),
                  scope.stream(),
                  stream.proxy_executor,
                  nullptr};
    call_model(model_.run, instance, call);
  } catch (...) {
    release_capture(instance);
    throw;
  }
  return instance;
}

// Not another one where an instance is idle: its memory mostly has the sizes that the graph needs,
// because the same call ran on it before. Whoever is lent its place later makes a new one.
void* Container::instance_for_capture() {
  const CaptureRelaxation relaxation;
  std::unique_lock lock(mutex_);
  Instance* const idle = pool_.take();
  void* instance = nullptr;
  if (idle != nullptr) {
    lock.unlock();
    const bool is_over = idle->finished.synchronize();
    if (is_over && idle->self != nullptr && model_.pending_error != nullptr) {
      // A capture that ended with one of them would tell nobody.
      while (const char* const error = model_.pending_error(idle->self)) {
        postponed_error_ = error;
      }
    }
    lock.lock();
    instance = is_over ? std::exchange(idle->self, nullptr) : nullptr;
    const InstancePool::Wakeup wakeup = pool_.give_back(idle);
  }
  if (instance == nullptr) {
    instance = make_instance(model_);
  }
  captured_.insert(instance);
  return instance;
}

void Container::release_capture(void* instance) {
  {
    const std::lock_guard lock(mutex_);
    if (captured_.erase(instance) == 0) {
      throw Failure("the container has no such capture");
    }
  }
  const DeviceScope scope(device_, nullptr);
  const CaptureRelaxation relaxation;
  model_.destroy(instance);
}

Container::ConstantsInUse::ConstantsInUse(Container& container) : container_(container) {
  const std::lock_guard lock(container.mutex_);
  if (!container.active_->is_ready) {
    throw Failure(
        "the model cannot be captured before it has run once: it has constants to compute");
  }
  constants_ = container.active_.get();
  ++constants_->users;
}

Container::ConstantsInUse::~ConstantsInUse() {
  const std::lock_guard lock(container_.mutex_);
  if (--constants_->users == 0 && constants_->is_awaited) {
    container_.unused_.notify_all();
  }
}

}  // namespace kiln::container
