#include "randomness.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>

#include <mutex>

namespace kiln::capture {

void PrivateGenerator::run(torch::jit::Stack& stack,
                           std::size_t arguments,
                           std::optional<std::uint32_t> generator_argument,
                           const std::function<void()>& call) {
  at::Generator shared = at::detail::getDefaultCPUGenerator();
  if (!generator_) {
    const std::lock_guard<std::mutex> lock(shared.mutex());
    generator_ = shared.clone();
  }
  if (generator_argument) {
    c10::IValue& slot = stack[stack.size() - arguments + *generator_argument];
    if (slot.isNone()) {
      slot = *generator_;
    }
    call();
    return;
  }

  const auto exchange = [&](at::Generator& from, at::Generator& to) {
    const c10::intrusive_ptr<c10::TensorImpl> state = from.unsafeGetGeneratorImpl()->get_state();
    to.unsafeGetGeneratorImpl()->set_state(*state);
  };
  at::Generator before = shared.clone();
  exchange(*generator_, shared);
  const auto restore = [&] {
    exchange(shared, *generator_);
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

}  // namespace kiln::capture
