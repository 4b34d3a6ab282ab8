// The scalar vocabulary of the ir: element types, devices, layouts.
//
// The numbers are libtorch's own (c10::ScalarType, c10::DeviceType, …), which the AOTInductor C ABI
// uses too, so that crossing to either is a cast and not a table.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kiln::ir {

/// The type of a tensor's elements.
enum class DType : std::int8_t {
  kUInt8 = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kFloat16 = 5,
  kFloat32 = 6,
  kFloat64 = 7,
  kComplex32 = 8,
  kComplex64 = 9,
  kComplex128 = 10,
  kBool = 11,
  kBFloat16 = 15,
  kFloat8E5M2 = 23,
  kFloat8E4M3FN = 24,
  kFloat8E5M2FNUZ = 25,
  kFloat8E4M3FNUZ = 26,
  kUInt16 = 27,
  kUInt32 = 28,
  kUInt64 = 29,
};

/// "f32", "bf16", "i64", "bool", … as the text form writes them.
[[nodiscard]] std::string_view to_string(DType dtype);
/// The inverse of `to_string`; nothing for any other text.
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view text);
/// Bytes of one element.
[[nodiscard]] int size_of(DType dtype);
/// Whether its elements are real numbers with fractions, of any precision.
[[nodiscard]] bool is_floating_point(DType dtype);
/// Those that are computed in float and rounded when they are stored: float16 and bfloat16.
[[nodiscard]] bool is_half(DType dtype);
/// `number` as an element of a half type holds it; of another type unchanged.
[[nodiscard]] double round_to(double number, DType dtype);
/// Whether its elements are complex numbers, of any precision.
[[nodiscard]] bool is_complex(DType dtype);
/// Integers of either sign; bool is none.
[[nodiscard]] bool is_integral(DType dtype);

/// The kinds of devices, by the numbers of `c10::DeviceType`.
enum class DeviceType : std::int8_t { kCpu = 0, kCuda = 1, kMeta = 14 };

/// Where a tensor lives.
struct Device {
  DeviceType type = DeviceType::kCpu;  ///< The kind.
  std::int8_t index = -1;              ///< -1: whichever is current.

  bool operator==(const Device&) const = default;  ///< Member by member.
};

/// "cpu", "cuda:0", "meta".
[[nodiscard]] std::string to_string(Device device);
/// The inverse of `to_string`; nothing for any other text.
[[nodiscard]] std::optional<Device> parse_device(std::string_view text);

/// The order of dimensions in memory, by the numbers of `c10::MemoryFormat`.
enum class MemoryFormat : std::int8_t {
  kContiguous = 0,
  kPreserve = 1,
  kChannelsLast = 2,
  kChannelsLast3d = 3
};
/// How elements are stored, by the numbers of `c10::Layout`.
enum class Layout : std::int8_t { kStrided = 0, kSparse = 1, kSparseCsr = 2, kMkldnn = 3 };

/// "contiguous_format", "channels_last", … as the text form writes them.
[[nodiscard]] std::string_view to_string(MemoryFormat format);
/// The inverse of `to_string`; nothing for any other text.
[[nodiscard]] std::optional<MemoryFormat> parse_memory_format(std::string_view text);
/// "strided", "sparse_csr", … as the text form writes them.
[[nodiscard]] std::string_view to_string(Layout layout);
/// The inverse of `to_string`; nothing for any other text.
[[nodiscard]] std::optional<Layout> parse_layout(std::string_view text);

}  // namespace kiln::ir
