#include "container/container.hpp"

#include <algorithm>
#include <utility>

#include "container/brief_lock.hpp"
#include "container/failure.hpp"
#include "container/intra_op_threads.hpp"

namespace kiln::container {
namespace {

void make(Instance& instance, const KilnModel& model, const Device& device) {
  const DeviceScope scope(device, nullptr);
  instance.finished.make(device);
  instance.self = make_instance(model);
}

}  // namespace

Container::Container(const KilnModel& model, std::size_t num_instances, std::int32_t device_index)
    : model_(model),
      device_(require_runnable(model), device_index),
      weights_(model),
      pool_(device_.useful_instances()),
      active_(std::make_unique<ConstantSet>(model, device_.index())),
      inactive_(std::make_unique<ConstantSet>(model, device_.index())) {
  if (num_instances == 0) {
    throw Failure("num_models must be positive, but got 0");
  }
  const NoGrad no_grad;
  const DeviceScope scope(device_, nullptr);
  weights_on_device_ = device_.copy_of(weights_.data(), model.weights_bytes);
  active_->take_embedded(weights_.data(), weights_on_device_.get());
  scope.synchronize();
  // Also what is folded, if the weights bring it.
  active_->is_ready = active_->is_complete();
  inactive_->is_ready = model.num_constants == 0;
  // Instances that write to shared constants run one at a time: one is enough.
  instances_ = std::vector<Instance>(model.mutates_constants != 0 ? 1 : num_instances);
  make(instances_.front(), model, device_);
  made_ = 1;
  pool_.add_lent();
  const InstancePool::Wakeup nobody = pool_.give_back(&instances_.front());
}

Container::~Container() {
  for (std::size_t i = 0; i < made_; ++i) {
    if (instances_[i].self != nullptr) {
      instances_[i].finished.synchronize();
      model_.destroy(instances_[i].self);
    }
  }
  for (void* const instance : captured_) {
    model_.destroy(instance);
  }
}

void Container::throw_postponed_error() {
  if (postponed_error_.load(std::memory_order_relaxed) == nullptr) [[likely]] {
    return;
  }
  if (const char* const error = postponed_error_.exchange(nullptr); error != nullptr) {
    throw Failure(error);
  }
}

void Container::run(AtenTensorHandle const* inputs, AtenTensorHandle* outputs, Stream stream) {
  throw_postponed_error();
  if (device_.is_capturing(stream.stream)) [[unlikely]] {
    run_captured(inputs, outputs, stream);
    return;
  }
  const Lease lease = acquire(stream);
  struct Return {
    Container& container;
    const Lease& lease;
    ~Return() { container.release(lease); }
  } const give_back{*this, lease};
  const IntraOpThreads threads(lease.running);
  execute(*lease.instance, *lease.constants, inputs, outputs, stream);
}

void Container::run_single_threaded(AtenTensorHandle const* inputs,
                                    AtenTensorHandle* outputs,
                                    Stream stream) {
  throw_postponed_error();
  if (device_.is_capturing(stream.stream)) [[unlikely]] {
    run_captured(inputs, outputs, stream);
    return;
  }
  if (!active_->is_ready) [[unlikely]] {
    release(fold_and_acquire(stream));
  }
  execute(make_again_if_taken(instances_.front()), *active_, inputs, outputs, stream);
}

void Container::check() {
  throw_postponed_error();
  if (model_.pending_error == nullptr) {
    return;
  }
  const std::lock_guard lock(mutex_);
  const auto check_instance = [this](void* instance) {
    if (const char* const error = model_.pending_error(instance); error != nullptr) {
      throw Failure(error);
    }
  };
  for (std::size_t i = 0; i < made_; ++i) {
    if (instances_[i].self != nullptr) {
      check_instance(instances_[i].self);
    }
  }
  std::ranges::for_each(captured_, check_instance);
}

void Container::execute(Instance& instance,
                        const ConstantSet& constants,
                        AtenTensorHandle const* inputs,
                        AtenTensorHandle* outputs,
                        Stream stream) {
  const NoGrad no_grad;
  const DeviceScope scope(device_, stream.stream);
  instance.finished.order_before(scope);
  struct Mark {
    DeviceEvent& finished;
    const DeviceScope& scope;
    ~Mark() { finished.record(scope); }
  } const mark{instance.finished, scope};
  KilnCall call{inputs,
                outputs,
                constants.handles(),
                constants.data(),
                scope.stream(),
                stream.proxy_executor,
                nullptr};
  call_model(model_.run, instance.self, call);
}

Container::Lease Container::acquire(Stream stream) {
  std::unique_lock lock = lock_briefly(mutex_);
  if (active_->is_ready) [[likely]] {
    Instance* instance = take_make_or_wait(lock);
    if (active_->is_ready) [[likely]] {
      ++active_->users;
      return {instance, active_.get(), pool_.lent()};
    }
    const InstancePool::Wakeup wakeup =
        pool_.give_back(instance);  // the constants were replaced during the wait
  }
  lock.unlock();
  return fold_and_acquire(stream);
}

void Container::release(const Lease& lease) noexcept {
  InstancePool::Wakeup wakeup;  // goes after the lock
  const std::unique_lock lock = lock_briefly(mutex_);
  wakeup = pool_.give_back(lease.instance);
  if (--lease.constants->users == 0 && lease.constants->is_awaited) [[unlikely]] {
    unused_.notify_all();
  }
}

Instance* Container::take_make_or_wait(std::unique_lock<std::mutex>& lock) {
  Instance* free = pool_.take();
  if (free == nullptr && made_ == instances_.size()) {
    free = pool_.wait(lock);
  }
  if (free != nullptr) {
    try {
      return &make_again_if_taken(*free);
    } catch (...) {
      const InstancePool::Wakeup wakeup = pool_.give_back(free);
      throw;
    }
  }
  // Made under the lock: it happens once for each instance, and a failure leaves nothing to undo.
  Instance& instance = instances_[made_];
  make(instance, model_, device_);
  ++made_;
  pool_.add_lent();
  return &instance;
}

Instance& Container::make_again_if_taken(Instance& instance) {
  if (instance.self == nullptr) [[unlikely]] {
    const DeviceScope scope(device_, nullptr);
    instance.self = make_instance(model_);
  }
  return instance;
}

Instance* Container::acquire_instance() {
  std::unique_lock lock(mutex_);
  return take_make_or_wait(lock);
}

void Container::release_instance(Instance* instance) noexcept {
  InstancePool::Wakeup wakeup;
  const std::lock_guard lock(mutex_);
  wakeup = pool_.give_back(instance);
}

}  // namespace kiln::container
