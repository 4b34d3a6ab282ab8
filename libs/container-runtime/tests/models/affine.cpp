// A model written by hand: y = 2 * scale * x + shift.
//
// The first element of x may ask for something else: NaN makes a run fail with a reason of the
// model's own, infinity with libtorch's; -1 makes it throw, -2 ask for more memory than there is,
// -3 take 20 ms and return how many threads OpenMP may use, -4 compute for 200 us and return
// how many seconds passed, -5 return whether grad mode is on.

#define KILN_TEST_DEVICE 0

#include <atomic>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <thread>

#include "affine_table.hpp"

extern "C" __attribute__((weak)) int omp_get_max_threads();

namespace {

std::atomic<int> folds{0};
std::atomic<int> instances{0};

void* create() {
  return new int(instances++);
}

void destroy(void* instance) {
  --instances;
  delete static_cast<int*>(instance);
}

// What a first element asks for beside the result; 0, or the code of the failure.
std::int32_t misbehave(float first, KilnCall* call) {
  if (std::isnan(first)) {
    call->error = "x starts with NaN";
    return 1;
  }
  if (std::isinf(first)) {
    std::int64_t size = 0;
    return aoti_torch_get_size(call->inputs[0], 99, &size);
  }
  if (first == -1) {
    throw std::runtime_error("x starts with -1");
  }
  if (first == -2) {
    const std::int64_t huge[] = {INT64_MAX / 64, kWidth};
    return aoti_torch_empty_strided(2, huge, input_strides, kFloat, kDevice, 0, &call->outputs[0]);
  }
  return 0;
}

std::int32_t run(void* /*instance*/, KilnCall* call) {
  const auto* x = data_of(call->inputs[0]);
  std::int64_t rows = 0;
  aoti_torch_get_size(call->inputs[0], 0, &rows);
  if (const std::int32_t code = rows > 0 ? misbehave(x[0], call) : 0; code != 0) {
    return code;
  }
  const std::int64_t sizes[] = {rows, kWidth};
  call->outputs[0] = empty(2, sizes, input_strides);
  auto* y = data_of(call->outputs[0]);
  const auto* shift = static_cast<const float*>(call->constant_data[1]);
  const auto* doubled = static_cast<const float*>(call->constant_data[2]);
  for (std::int64_t i = 0; i < rows * kWidth; ++i) {
    y[i] = x[i] * doubled[i % kWidth] + shift[i % kWidth];
  }
  if (rows > 0 && x[0] == -3) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    y[0] = omp_get_max_threads != nullptr ? static_cast<float>(omp_get_max_threads()) : 1.0F;
  }
  if (rows > 0 && x[0] == -5) {
    y[0] = aoti_torch_grad_mode_is_enabled() ? 1.0F : 0.0F;
  }
  if (rows > 0 && x[0] == -4) {
    const auto start = std::chrono::steady_clock::now();
    std::chrono::duration<float> passed{};
    do {
      passed = std::chrono::steady_clock::now() - start;
    } while (passed < std::chrono::microseconds(200));
    y[0] = passed.count();
  }
  return 0;
}

std::int32_t fold(void* /*instance*/, KilnCall* call) {
  ++folds;
  const auto* scale = static_cast<const float*>(call->constant_data[0]);
  if (scale[0] < 0) {
    call->error = "scale is negative";
    return 1;
  }
  call->outputs[0] = empty(1, row_sizes, row_strides);
  for (std::int64_t i = 0; i < kWidth; ++i) {
    data_of(call->outputs[0])[i] = 2 * scale[i];
  }
  return 0;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int affine_folds() {
  return folds;
}

__attribute__((visibility("default"))) int affine_instances() {
  return instances;
}
}
