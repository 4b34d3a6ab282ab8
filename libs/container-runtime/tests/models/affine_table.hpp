// What affine.cpp and affine_cuda.cpp share: the table of a model y = 2 * scale * x + shift, for x
// of sizes [?, 4]. `scale` is a parameter, `shift` a buffer, `doubled` = 2 * scale is folded.
// Defined before: KILN_TEST_DEVICE, the number of the device. Defined after: the four functions.

#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <cstdint>

#include "kiln/container_runtime/model.h"

#ifndef KILN_TEST_CPU_FEATURES
#define KILN_TEST_CPU_FEATURES ""
#endif

namespace {

constexpr std::int32_t kFloat = 6;
constexpr std::int32_t kDevice = KILN_TEST_DEVICE;
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

const KilnTensor inputs[] = {{"x", kFloat, kDevice, 2, input_sizes, input_strides, 0}};
const KilnTensor outputs[] = {{"y", kFloat, kDevice, 2, input_sizes, input_strides, 0}};

KilnConstant constant(const char* name, const char* fqn, std::uint64_t offset, std::int32_t kind) {
  return {
      name, fqn, kFloat, kDevice, 1, row_sizes, row_strides, sizeof(Row::values), offset, kind, 0};
}

const KilnConstant constants[] = {
    constant("c_scale", "module.scale", 0, KILN_CONSTANT_PARAMETER),
    constant("c_shift", "module.shift", sizeof(Row), KILN_CONSTANT_BUFFER),
    constant("c_doubled", "c_doubled", UINT64_MAX, KILN_CONSTANT_FOLDED)};

// Uninitialised, on the current device.
AtenTensorHandle empty(std::int64_t rank, const std::int64_t* sizes, const std::int64_t* strides) {
  AtenTensorHandle result = nullptr;
  aoti_torch_empty_strided(rank, sizes, strides, kFloat, kDevice, kDevice == 0 ? 0 : -1, &result);
  return result;
}

float* data_of(AtenTensorHandle tensor) {
  void* data = nullptr;
  aoti_torch_get_data_ptr(tensor, &data);
  return static_cast<float*>(data);
}

void* create();
void destroy(void* instance);
std::int32_t run(void* instance, KilnCall* call);
std::int32_t fold(void* instance, KilnCall* call);

}  // namespace

extern "C" const KilnModel kiln_model = {
    KILN_MODEL_VERSION,
    kDevice,
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
    fold,
    nullptr};
