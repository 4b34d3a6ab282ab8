// A model written by hand that writes to its constants: every run adds 1 to `count` and returns it.

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <cstdint>

#include "kiln/container_runtime/model.h"

namespace {

constexpr std::int32_t kLong = 4;
constexpr std::int32_t kCpu = 0;

alignas(64) std::int64_t embedded_count = 0;

int one_instance;

void* create() {
  return &one_instance;
}

void destroy(void*) {}

std::int32_t run(void*, KilnCall* call) {
  auto* count = static_cast<std::int64_t*>(call->constant_data[0]);
  ++*count;
  return aoti_torch_clone(call->constants[0], &call->outputs[0]);
}

const std::int64_t one[] = {1};
const KilnTensor outputs[] = {{"count", kLong, kCpu, 1, one, one, 0}};
const KilnConstant constants[] = {{"count",
                                   "module.count",
                                   kLong,
                                   kCpu,
                                   1,
                                   one,
                                   one,
                                   sizeof(embedded_count),
                                   0,
                                   KILN_CONSTANT_BUFFER,
                                   1}};

}  // namespace

extern "C" const KilnModel kiln_model = {KILN_MODEL_VERSION,
                                         kCpu,
                                         0,
                                         1,
                                         1,
                                         1,
                                         1,
                                         nullptr,
                                         outputs,
                                         constants,
                                         "",
                                         "",
                                         "",
                                         reinterpret_cast<unsigned char*>(&embedded_count),
                                         sizeof(embedded_count),
                                         create,
                                         destroy,
                                         run,
                                         nullptr,
                                         nullptr};
