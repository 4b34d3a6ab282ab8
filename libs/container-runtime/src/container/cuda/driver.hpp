// CUDA's driver and the part of libtorch's C shim that only a build with CUDA has, found when they
// are first needed: a model library names neither as needed, so that it can be linked where they
// are not and can say what is missing where it is loaded. Neither are their headers needed to
// compile this; what it takes of the driver's stable ABI is declared here.

#pragma once

#include <cstddef>
#include <cstdint>

#include "container/shim.hpp"

namespace kiln::container::cuda {

/// CUresult: 0, or why not.
using Result = int;
inline constexpr Result kSuccess = 0;
/// CUdevice: a number below that of the GPUs.
using DeviceNumber = int;
/// CUcontext, CUstream, CUevent, CUlibrary and CUkernel, which only the driver looks into.
using Handle = void*;

inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostAllocMapped = 3;     ///< For all devices, at their own addresses.
inline constexpr int kComputeCapabilityMajor = 75;  ///< Of a device.
inline constexpr int kComputeCapabilityMinor = 76;
inline constexpr int kNotCapturing = 0;           ///< A stream's status.
inline constexpr int kRelaxedCaptureMode = 2;     ///< Of a thread.
inline constexpr int kMaxDynamicSharedBytes = 8;  ///< Of a function.

/// The driver's entries.
struct Driver {
  Result (*get_error_string)(Result, const char**) = nullptr;
  Result (*init)(unsigned flags) = nullptr;
  Result (*device_get_count)(int*) = nullptr;
  Result (*device_get)(DeviceNumber*, int ordinal) = nullptr;
  Result (*device_get_attribute)(int*, int attribute, DeviceNumber) = nullptr;
  Result (*retain_context)(Handle*, DeviceNumber) = nullptr;
  Result (*release_context)(DeviceNumber) = nullptr;
  Result (*push_context)(Handle) = nullptr;
  Result (*pop_context)(Handle*) = nullptr;
  Result (*stream_synchronize)(Handle) = nullptr;
  Result (*stream_wait_event)(Handle stream, Handle event, unsigned flags) = nullptr;
  /// A number that no other stream of the process ever has; null before CUDA 12.
  Result (*stream_get_id)(Handle stream, unsigned long long* id) = nullptr;
  Result (*stream_is_capturing)(Handle stream, int* status) = nullptr;
  Result (*exchange_capture_mode)(int* mode) = nullptr;
  Result (*event_create)(Handle*, unsigned flags) = nullptr;
  Result (*event_destroy)(Handle) = nullptr;
  Result (*event_record)(Handle event, Handle stream) = nullptr;
  Result (*event_synchronize)(Handle) = nullptr;
  Result (*host_allocate)(void**, std::size_t bytes, unsigned flags) = nullptr;
  Result (*host_free)(void*) = nullptr;
  Result (*library_load)(Handle*,
                         const void* image,
                         int* jit_options,
                         void** jit_values,
                         unsigned jit_count,
                         int* options,
                         void** values,
                         unsigned count) = nullptr;
  Result (*library_unload)(Handle) = nullptr;
  Result (*library_kernel)(Handle* kernel, Handle library, const char* name) = nullptr;
  Result (*kernel_set_attribute)(int attribute, int value, Handle kernel, DeviceNumber) = nullptr;
  Result (*launch)(Handle kernel,
                   unsigned grid_x,
                   unsigned grid_y,
                   unsigned grid_z,
                   unsigned block_x,
                   unsigned block_y,
                   unsigned block_z,
                   unsigned shared_bytes,
                   Handle stream,
                   void** arguments,
                   void** extra) = nullptr;
};

/// Throws `Failure` that says what is missing if there is no driver or no GPU.
const Driver& driver();

/// libtorch's entries for CUDA, whose declarations need its CUDA build.
struct TorchCuda {
  void* library = nullptr;  ///< As dlopen gave it.
  AOTITorchError (*create_stream_guard)(void* stream, std::int32_t index, void** guard) = nullptr;
  AOTITorchError (*delete_stream_guard)(void* guard) = nullptr;
  AOTITorchError (*current_stream)(std::int32_t index, void** stream) = nullptr;
};

/// Throws `Failure` if this process's libtorch was built without CUDA.
const TorchCuda& torch_cuda();

/// Throws `Failure` with the driver's sentence unless the call succeeded.
void require(Result code, const char* what);

inline constexpr std::int32_t kBytes = 0;  ///< c10::ScalarType of uint8.

/// Memory of a device as a tensor; throws `Failure` with `what` if there is none.
[[nodiscard]] Tensor empty_bytes(std::uint64_t count, std::int32_t device_index, const char* what);

/// The device of the innermost `DeviceScope` on this thread; -1 outside of any.
[[nodiscard]] std::int32_t& current_device() noexcept;

}  // namespace kiln::container::cuda
