// The model of affine.cpp on a GPU.
//
// An instance has one buffer that its runs share, as generated code has: a run computes there and
// then copies. A run of 64 rows waits 20 ms on the device in between, so that two runs of one
// instance which overlap there would be seen.

#define KILN_TEST_DEVICE 1

#include "affine_table.hpp"
#include "kiln/container_runtime/cuda_kernels.h"

// The kernels, in the library's read-only data.
asm(".pushsection .rodata\n"
    ".balign 64\n"
    ".hidden affine_image\n"
    ".global affine_image\n"
    "affine_image:\n"
    ".incbin \"" KILN_TEST_FATBIN
    "\"\n"
    ".popsection\n");
extern "C" __attribute__((visibility("hidden"))) const unsigned char affine_image[];

namespace {

constexpr std::int64_t kMostRows = 1024;
constexpr std::int64_t kSlowRows = 64;

struct Instance {
  void* affine = nullptr;
  void* twice = nullptr;
  void* copy = nullptr;
  void* linger = nullptr;
  AtenTensorHandle buffer = nullptr;
};

void* create() {
  const std::int64_t sizes[] = {kMostRows, kWidth};
  auto* instance = new Instance;
  instance->affine = kiln_cuda_kernel(affine_image, "affine", 0);
  instance->twice = kiln_cuda_kernel(affine_image, "twice", 0);
  instance->copy = kiln_cuda_kernel(affine_image, "copy", 0);
  instance->linger = kiln_cuda_kernel(affine_image, "linger", 0);
  instance->buffer = empty(2, sizes, input_strides);
  if (instance->affine == nullptr || instance->twice == nullptr || instance->copy == nullptr ||
      instance->linger == nullptr || instance->buffer == nullptr) {
    destroy(instance);
    return nullptr;
  }
  return instance;
}

void destroy(void* self) {
  auto* instance = static_cast<Instance*>(self);
  if (instance->buffer != nullptr) {
    aoti_torch_delete_tensor_object(instance->buffer);
  }
  delete instance;
}

// 0, or 1 with the reason in the call.
template <class... Arguments>
std::int32_t launch(KilnCall* call, void* kernel, long long count, Arguments... arguments) {
  constexpr std::uint32_t kThreads = 128;
  const auto blocks = static_cast<std::uint32_t>((count + kThreads - 1) / kThreads);
  const std::uint32_t grid[] = {blocks, 1, 1};
  const std::uint32_t block[] = {kThreads, 1, 1};
  void* addresses[] = {&arguments..., &count};
  call->error = kiln_cuda_launch(kernel, grid, block, 0, call->stream, addresses);
  return call->error == nullptr ? 0 : 1;
}

std::int32_t linger(KilnCall* call, void* kernel) {
  const std::uint32_t one[] = {1, 1, 1};
  long long nanoseconds = 20'000'000;
  void* addresses[] = {&nanoseconds};
  call->error = kiln_cuda_launch(kernel, one, one, 0, call->stream, addresses);
  return call->error == nullptr ? 0 : 1;
}

std::int32_t run(void* self, KilnCall* call) {
  auto* instance = static_cast<Instance*>(self);
  std::int64_t rows = 0;
  aoti_torch_get_size(call->inputs[0], 0, &rows);
  if (rows > kMostRows) {
    call->error = "x has more rows than the model was compiled for";
    return 1;
  }
  const std::int64_t sizes[] = {rows, kWidth};
  call->outputs[0] = empty(2, sizes, input_strides);
  if (call->outputs[0] == nullptr) {
    return 1;  // libtorch says why
  }
  if (rows == 0) {
    return 0;
  }
  float* buffer = data_of(instance->buffer);
  if (launch(call,
             instance->affine,
             rows * kWidth,
             data_of(call->inputs[0]),
             call->constant_data[2],
             call->constant_data[1],
             buffer) != 0 ||
      (rows == kSlowRows && linger(call, instance->linger) != 0)) {
    return 1;
  }
  return launch(call, instance->copy, rows * kWidth, buffer, data_of(call->outputs[0]));
}

std::int32_t fold(void* self, KilnCall* call) {
  auto* instance = static_cast<Instance*>(self);
  call->outputs[0] = empty(1, row_sizes, row_strides);
  if (call->outputs[0] == nullptr) {
    return 1;
  }
  return launch(call, instance->twice, kWidth, call->constant_data[0], data_of(call->outputs[0]));
}

}  // namespace

/// Where the kernels lie in the library.
extern "C" __attribute__((visibility("default"))) const void* affine_kernels() {
  return affine_image;
}
