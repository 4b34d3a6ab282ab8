#include "container/container.hpp"

#include <string>
#include <utility>

#include "container/failure.hpp"
#include "container/geometry.hpp"

namespace kiln::container {

Container::Container(const KilnModel& model, std::size_t num_instances, std::int32_t device_index)
    : model_(model),
      device_index_(device_index),
      active_(std::make_unique<ConstantSet>(model, device_index)),
      inactive_(std::make_unique<ConstantSet>(model, device_index)) {
  require_known_version(model);
  if (num_instances == 0) {
    throw Failure("num_models must be positive, but got 0");
  }
  const NoGrad no_grad;
  active_->take_embedded();
  active_->is_ready = model.fold == nullptr && !active_->first_missing();
  inactive_->is_ready = model.num_constants == 0;
  // Instances that write to shared constants run one at a time: one is enough.
  instances_.resize(model.mutates_constants != 0 ? 1 : num_instances);
  for (Instance& instance : instances_) {
    instance.self = model.create();
    if (instance.self == nullptr) {
      for (Instance* made = instances_.data(); made != &instance; ++made) {
        model.destroy(made->self);
      }
      throw Failure("an instance of the model cannot be made: " + shim_message());
    }
    pool_.give_back(&instance);
  }
}

Container::~Container() {
  for (const Instance& instance : instances_) {
    model_.destroy(instance.self);
  }
}

void Container::run(AtenTensorHandle const* inputs, AtenTensorHandle* outputs, Stream stream) {
  const Lease lease = acquire(stream);
  struct Return {
    Container& container;
    const Lease& lease;
    ~Return() { container.release(lease); }
  } const give_back{*this, lease};
  execute(*lease.instance, *lease.constants, inputs, outputs, stream);
}

void Container::run_single_threaded(AtenTensorHandle const* inputs,
                                    AtenTensorHandle* outputs,
                                    Stream stream) {
  if (!active_->is_ready) {
    fold_if_needed(stream);
  }
  execute(instances_.front(), *active_, inputs, outputs, stream);
}

void Container::execute(Instance& instance,
                        const ConstantSet& constants,
                        AtenTensorHandle const* inputs,
                        AtenTensorHandle* outputs,
                        Stream stream) {
  const NoGrad no_grad;
  KilnCall call{inputs,
                outputs,
                constants.handles(),
                constants.data(),
                stream.stream,
                stream.proxy_executor,
                nullptr};
  call_model(model_.run, instance.self, call);
}

Container::Lease Container::acquire(Stream stream) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (!active_->is_ready) [[unlikely]] {
      lock.unlock();
      fold_if_needed(stream);
      lock.lock();
      continue;
    }
    Instance* instance = pool_.take();
    if (instance == nullptr) [[unlikely]] {
      instance = pool_.wait(lock);
      if (!active_->is_ready) {
        pool_.give_back(instance);
        continue;
      }
    }
    ++active_->users;
    return {instance, active_.get()};
  }
}

void Container::release(const Lease& lease) noexcept {
  const std::lock_guard lock(mutex_);
  pool_.give_back(lease.instance);
  if (--lease.constants->users == 0 && lease.constants->is_awaited) [[unlikely]] {
    unused_.notify_all();
  }
}

Instance* Container::acquire_instance() {
  std::unique_lock lock(mutex_);
  Instance* instance = pool_.take();
  return instance != nullptr ? instance : pool_.wait(lock);
}

void Container::release_instance(Instance* instance) noexcept {
  const std::lock_guard lock(mutex_);
  pool_.give_back(instance);
}

}  // namespace kiln::container
