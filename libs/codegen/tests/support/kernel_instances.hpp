// The hand-written kernels, compiled from their headers as they are: for vectors of 4 and 16
// floats, whatever the machine has, and with the build's own flags and sanitizers.

#pragma once

namespace kiln::codegen {

using HandWrittenKernel = void (*)(void* const* buffers, const long long* params);

extern "C" {
void packed_gemm_4(void* const* buffers, const long long* params);
void packed_gemm_16(void* const* buffers, const long long* params);
void packed_convolution_4(void* const* buffers, const long long* params);
void packed_convolution_16(void* const* buffers, const long long* params);
void winograd_convolution_4(void* const* buffers, const long long* params);
void winograd_convolution_16(void* const* buffers, const long long* params);
void attention_4(void* const* buffers, const long long* params);
void attention_16(void* const* buffers, const long long* params);
}

}  // namespace kiln::codegen
