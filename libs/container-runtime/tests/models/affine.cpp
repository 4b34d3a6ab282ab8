// A model written by hand: y = 2 * scale * x + shift, for x of sizes [?, 4].
//
// `scale` is a parameter, `shift` a buffer, `doubled` = 2 * scale is folded. A first element that
// is NaN makes a run fail with a reason of the model's own; one that is infinite, with libtorch's.

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <atomic>
#include <cmath>
#include <cstdint>

#include "kiln/container_runtime/model.h"

#ifndef KILN_TEST_CPU_FEATURES
#define KILN_TEST_CPU_FEATURES ""
#endif

namespace {

constexpr std::int32_t kFloat = 6;
constexpr std::int32_t kCpu = 0;
constexpr std::int64_t kWidth = 4;

struct alignas(64) Row {
  float values[kWidth];
};

// Two constants, each on a cache line of its own.
struct Weights {
  Row scale{{1, 2, 3, 4}};
  Row shift{{10, 20, 30, 40}};
};

#ifdef KILN_TEST_WEIGHTS_BEHIND
constexpr unsigned char* weights_here = nullptr;
#else
Weights weights;
unsigned char* const weights_here = reinterpret_cast<unsigned char*>(&weights);
#endif

const std::int64_t input_sizes[] = {-1, kWidth};
const std::int64_t input_strides[] = {kWidth, 1};
const std::int64_t row_sizes[] = {kWidth};
const std::int64_t row_strides[] = {1};

std::atomic<int> folds{0};
std::atomic<int> instances{0};

void* create() {
  return new int(instances++);
}

void destroy(void* instance) {
  --instances;
  delete static_cast<int*>(instance);
}

AtenTensorHandle empty(std::int64_t rank, const std::int64_t* sizes, const std::int64_t* strides) {
  AtenTensorHandle result = nullptr;
  aoti_torch_empty_strided(rank, sizes, strides, kFloat, kCpu, 0, &result);
  return result;
}

float* data_of(AtenTensorHandle tensor) {
  void* data = nullptr;
  aoti_torch_get_data_ptr(tensor, &data);
  return static_cast<float*>(data);
}

std::int32_t run(void*, KilnCall* call) {
  const auto* x = data_of(call->inputs[0]);
  std::int64_t rows = 0;
  aoti_torch_get_size(call->inputs[0], 0, &rows);
  if (rows > 0 && std::isnan(x[0])) {
    call->error = "x starts with NaN";
    return 1;
  }
  if (rows > 0 && std::isinf(x[0])) {
    std::int64_t size = 0;
    return aoti_torch_get_size(call->inputs[0], 99, &size);
  }
  const std::int64_t sizes[] = {rows, kWidth};
  call->outputs[0] = empty(2, sizes, input_strides);
  auto* y = data_of(call->outputs[0]);
  const auto* shift = static_cast<const float*>(call->constant_data[1]);
  const auto* doubled = static_cast<const float*>(call->constant_data[2]);
  for (std::int64_t i = 0; i < rows * kWidth; ++i) {
    y[i] = x[i] * doubled[i % kWidth] + shift[i % kWidth];
  }
  return 0;
}

std::int32_t fold(void*, KilnCall* call) {
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

const KilnTensor inputs[] = {{"x", kFloat, kCpu, 2, input_sizes, input_strides}};
const KilnTensor outputs[] = {{"y", kFloat, kCpu, 2, input_sizes, input_strides}};

KilnConstant constant(const char* name, const char* fqn, std::uint64_t offset, std::int32_t kind) {
  return {name, fqn, kFloat, kCpu, 1, row_sizes, row_strides, sizeof(Row::values), offset, kind, 0};
}

const KilnConstant constants[] = {
    constant("c_scale", "module.scale", 0, KILN_CONSTANT_PARAMETER),
    constant("c_shift", "module.shift", sizeof(Row), KILN_CONSTANT_BUFFER),
    constant("c_doubled", "c_doubled", UINT64_MAX, KILN_CONSTANT_FOLDED)};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int affine_folds() {
  return folds;
}

__attribute__((visibility("default"))) int affine_instances() {
  return instances;
}

const KilnModel kiln_model = {
    KILN_MODEL_VERSION,
    kCpu,
    1,
    1,
    3,
    1,
    0,
    inputs,
    outputs,
    constants,
    R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [{"type": "builtins.tuple", "context": "null", "children_spec": [{"type": null, "context": null, "children_spec": []}]}, {"type": "builtins.dict", "context": "[]", "children_spec": []}]}])",
    R"([1, {"type": null, "context": null, "children_spec": []}])",
    KILN_TEST_CPU_FEATURES,
    weights_here,
    sizeof(Weights),
    create,
    destroy,
    run,
    fold};
}
