#include "randomness.hpp"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>

#include <mutex>

namespace kiln::capture {

namespace {

// Where an operator draws: on the device of its first tensor or, if it makes one, the one it is
// told.
c10::Device device_of(const torch::jit::Stack& stack, std::size_t arguments) {
  for (std::size_t i = stack.size() - arguments; i < stack.size(); ++i) {
    if (stack[i].isTensor() && stack[i].toTensor().defined()) {
      return stack[i].toTensor().device();
    }
    if (stack[i].isDevice()) {
      return stack[i].toDevice();
    }
  }
  return at::kCPU;
}

}  // namespace

at::Generator& PrivateGenerator::of(at::Generator& shared) {
  for (auto& [device, generator] : generators_) {
    if (device == shared.device()) {
      return generator;
    }
  }
  const std::lock_guard<std::mutex> lock(shared.mutex());
  return generators_.emplace_back(shared.device(), shared.clone()).second;
}

void PrivateGenerator::run(torch::jit::Stack& stack,
                           std::size_t arguments,
                           std::optional<std::uint32_t> generator_argument,
                           const std::function<void()>& call) {
  at::Generator shared = at::globalContext().defaultGenerator(device_of(stack, arguments));
  at::Generator& own = of(shared);
  if (generator_argument) {
    c10::IValue& slot = stack[stack.size() - arguments + *generator_argument];
    if (slot.isNone()) {
      slot = own;
    }
    call();
    return;
  }

  const auto exchange = [&](at::Generator& from, at::Generator& to) {
    const c10::intrusive_ptr<c10::TensorImpl> state = from.unsafeGetGeneratorImpl()->get_state();
    to.unsafeGetGeneratorImpl()->set_state(*state);
  };
  at::Generator before = shared.clone();
  exchange(own, shared);
  const auto restore = [&] {
    exchange(shared, own);
    exchange(before, shared);
  };
  try {
    call();
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

UnseededGenerator::UnseededGenerator() {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  state_ = generator.get_state();
  seed_ = generator.current_seed();
}

bool UnseededGenerator::restore_if_seeded() const {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  const at::Tensor state = generator.get_state();
  if (at::equal(state, state_)) {
    return false;
  }
  at::Generator fresh = generator.clone();
  fresh.set_current_seed(generator.current_seed());
  if (generator.current_seed() == seed_ && !at::equal(state, fresh.get_state())) {
    return false;  // Another thread has drawn from it.
  }
  generator.set_state(state_);
  return true;
}

}  // namespace kiln::capture
