// A tensor's dtype, device and geometry as the shim tells them, checks against what was compiled,
// and the sentences that say what differs.

#pragma once

#include <cstdint>
#include <string>

#include "container/shim.hpp"
#include "kiln/container_runtime/model.h"

namespace kiln::container {

/// What a kernel relies on. Sizes and strides are borrowed.
struct Geometry {
  std::int32_t dtype = 0;
  std::int32_t device_type = 0;
  std::int32_t device_index = -1;  // -1: any, as it is on the CPU
  std::int64_t rank = 0;
  const std::int64_t* sizes = nullptr;
  const std::int64_t* strides = nullptr;
};

/// Reads it from a tensor. False if the shim refuses (undefined or not strided).
inline bool read_geometry(AtenTensorHandle tensor, Geometry& result) noexcept {
  std::int64_t* sizes = nullptr;
  std::int64_t* strides = nullptr;
  const bool ok = aoti_torch_get_dtype(tensor, &result.dtype) == AOTI_TORCH_SUCCESS &&
                  aoti_torch_get_device_type(tensor, &result.device_type) == AOTI_TORCH_SUCCESS &&
                  aoti_torch_get_dim(tensor, &result.rank) == AOTI_TORCH_SUCCESS &&
                  aoti_torch_get_sizes(tensor, &sizes) == AOTI_TORCH_SUCCESS &&
                  aoti_torch_get_strides(tensor, &strides) == AOTI_TORCH_SUCCESS;
  result.sizes = sizes;
  result.strides = strides;
  return ok && (result.device_type == aoti_torch_device_type_cpu() ||
                aoti_torch_get_device_index(tensor, &result.device_index) == AOTI_TORCH_SUCCESS);
}

/// True if it is the expected device, or any of that kind will do.
[[nodiscard]] inline bool devices_match(const Geometry& expected, const Geometry& actual) noexcept {
  return expected.device_type == actual.device_type &&
         (expected.device_index < 0 || actual.device_index < 0 ||
          expected.device_index == actual.device_index);
}

/// True if `actual` can stand where `expected` was compiled; -1 accepts any size or stride, and the
/// stride of a dimension of size 1 (or of an empty tensor) does not matter.
[[nodiscard]] bool sizes_match(const Geometry& expected, const Geometry& actual) noexcept;
[[nodiscard]] bool strides_match(const Geometry& expected, const Geometry& actual) noexcept;

/// Says what differs: "expected dtype float32, but got float64". Empty if nothing does.
[[nodiscard]] std::string difference(const Geometry& expected, const Geometry& actual);

/// True for the dtypes of complex numbers.
[[nodiscard]] inline bool is_complex(std::int32_t dtype) noexcept {
  return dtype >= 8 && dtype <= 10;  // complex32, complex64, complex128
}

/// "float32", "int64"; "dtype 99" for a number nobody knows.
[[nodiscard]] std::string dtype_name(std::int32_t dtype);

/// "cpu", "cuda"; "device type 9" for others.
[[nodiscard]] std::string device_name(std::int32_t device_type);

/// Throws `Failure` that names the first input that is not as compiled, or not on the device of
/// that index.
void check_inputs(const KilnModel& model,
                  std::int32_t device_index,
                  AtenTensorHandle const* inputs);

}  // namespace kiln::container
