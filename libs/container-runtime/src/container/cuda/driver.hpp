// CUDA's driver and the part of libtorch's C shim that only a build with CUDA has, found when they
// are first needed: a model library names neither as needed, so that it can be linked where they
// are not and can say what is missing where it is loaded.

#pragma once

#include <cuda.h>

#include <cstdint>

#include "container/shim.hpp"

namespace kiln::container::cuda {

/// The driver's entries.
struct Driver {
  decltype(&cuGetErrorString) get_error_string = nullptr;
  decltype(&cuInit) init = nullptr;
  decltype(&cuDeviceGetCount) device_get_count = nullptr;
  decltype(&cuDeviceGet) device_get = nullptr;
  decltype(&cuDevicePrimaryCtxRetain) retain_context = nullptr;
  decltype(&cuDevicePrimaryCtxRelease) release_context = nullptr;
  decltype(&cuCtxPushCurrent) push_context = nullptr;
  decltype(&cuCtxPopCurrent) pop_context = nullptr;
  decltype(&cuStreamSynchronize) stream_synchronize = nullptr;
  decltype(&cuStreamWaitEvent) stream_wait_event = nullptr;
  decltype(&cuEventCreate) event_create = nullptr;
  decltype(&cuEventDestroy) event_destroy = nullptr;
  decltype(&cuEventRecord) event_record = nullptr;
  decltype(&cuEventSynchronize) event_synchronize = nullptr;
  decltype(&cuLibraryLoadData) library_load = nullptr;
  decltype(&cuLibraryUnload) library_unload = nullptr;
  decltype(&cuLibraryGetKernel) library_kernel = nullptr;
  decltype(&cuKernelSetAttribute) kernel_set_attribute = nullptr;
  decltype(&cuLaunchKernel) launch = nullptr;
};

/// Throws `Failure` that says what is missing if there is no driver or no GPU.
const Driver& driver();

/// libtorch's entries for CUDA, whose declarations need its CUDA build.
struct TorchCuda {
  AOTITorchError (*create_stream_guard)(void* stream, std::int32_t index, void** guard) = nullptr;
  AOTITorchError (*delete_stream_guard)(void* guard) = nullptr;
  AOTITorchError (*current_stream)(std::int32_t index, void** stream) = nullptr;
};

/// Throws `Failure` if this process's libtorch was built without CUDA.
const TorchCuda& torch_cuda();

/// Throws `Failure` with the driver's sentence unless the call succeeded.
void require(CUresult code, const char* what);

}  // namespace kiln::container::cuda
