#include "kiln/ir/types.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace kiln::ir {
namespace {

template <class Kind>
struct Name {
  Kind kind;
  std::string_view text;
};

struct DTypeName {
  DType kind;
  std::string_view text;
  int size;
};

constexpr std::array kDTypes = {
    DTypeName{DType::kUInt8, "u8", 1},
    DTypeName{DType::kInt8, "i8", 1},
    DTypeName{DType::kInt16, "i16", 2},
    DTypeName{DType::kInt32, "i32", 4},
    DTypeName{DType::kInt64, "i64", 8},
    DTypeName{DType::kFloat16, "f16", 2},
    DTypeName{DType::kFloat32, "f32", 4},
    DTypeName{DType::kFloat64, "f64", 8},
    DTypeName{DType::kComplex32, "c32", 4},
    DTypeName{DType::kComplex64, "c64", 8},
    DTypeName{DType::kComplex128, "c128", 16},
    DTypeName{DType::kBool, "bool", 1},
    DTypeName{DType::kBFloat16, "bf16", 2},
    DTypeName{DType::kFloat8E5M2, "f8e5m2", 1},
    DTypeName{DType::kFloat8E4M3FN, "f8e4m3fn", 1},
    DTypeName{DType::kFloat8E5M2FNUZ, "f8e5m2fnuz", 1},
    DTypeName{DType::kFloat8E4M3FNUZ, "f8e4m3fnuz", 1},
    DTypeName{DType::kUInt16, "u16", 2},
    DTypeName{DType::kUInt32, "u32", 4},
    DTypeName{DType::kUInt64, "u64", 8},
};

constexpr std::array kDeviceTypes = {
    Name<DeviceType>{DeviceType::kCpu, "cpu"},
    Name<DeviceType>{DeviceType::kCuda, "cuda"},
    Name<DeviceType>{DeviceType::kMeta, "meta"},
};

constexpr std::array kMemoryFormats = {
    Name<MemoryFormat>{MemoryFormat::kContiguous, "contiguous_format"},
    Name<MemoryFormat>{MemoryFormat::kPreserve, "preserve_format"},
    Name<MemoryFormat>{MemoryFormat::kChannelsLast, "channels_last"},
    Name<MemoryFormat>{MemoryFormat::kChannelsLast3d, "channels_last_3d"},
};

constexpr std::array kLayouts = {
    Name<Layout>{Layout::kStrided, "strided"},
    Name<Layout>{Layout::kSparse, "sparse"},
    Name<Layout>{Layout::kSparseCsr, "sparse_csr"},
    Name<Layout>{Layout::kMkldnn, "mkldnn"},
};

template <class Table, class Kind>
std::string_view text_of(const Table& table, Kind kind) {
  for (const auto& entry : table) {
    if (entry.kind == kind) {
      return entry.text;
    }
  }
  return "unknown";
}

template <class Table>
auto kind_of(const Table& table, std::string_view text) -> std::optional<decltype(table[0].kind)> {
  for (const auto& entry : table) {
    if (entry.text == text) {
      return entry.kind;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(DType dtype) {
  return text_of(kDTypes, dtype);
}

std::optional<DType> parse_dtype(std::string_view text) {
  return kind_of(kDTypes, text);
}

int size_of(DType dtype) {
  for (const DTypeName& entry : kDTypes) {
    if (entry.kind == dtype) {
      return entry.size;
    }
  }
  return 0;
}

bool is_floating_point(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kBFloat16:
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2FNUZ:
    case DType::kFloat8E4M3FNUZ: return true;
    default: return false;
  }
}

bool is_half(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

namespace {

// To the nearest number of `digits` binary digits, ties to even; infinite from `limit` on.
double round_to_digits(double x, int digits, double least, double limit) {
  if (!std::isfinite(x) || x == 0) {
    return x;
  }
  const double quantum = std::max(least, std::ldexp(1.0, std::ilogb(x) + 1 - digits));
  const double nearest = std::nearbyint(x / quantum) * quantum;
  return std::fabs(nearest) >= limit ? std::copysign(std::numeric_limits<double>::infinity(), x)
                                     : nearest;
}

}  // namespace

double round_to(double number, DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return round_to_digits(number, 11, 0x1p-24, 65536);
    case DType::kBFloat16: return round_to_digits(number, 8, 0x1p-133, 0x1p128);
    default: return number;
  }
}

bool is_complex(DType dtype) {
  return dtype == DType::kComplex32 || dtype == DType::kComplex64 || dtype == DType::kComplex128;
}

bool is_integral(DType dtype) {
  return dtype != DType::kBool && !is_floating_point(dtype) && !is_complex(dtype);
}

std::string to_string(Device device) {
  std::string text(text_of(kDeviceTypes, device.type));
  if (device.index >= 0) {
    text += ':' + std::to_string(device.index);
  }
  return text;
}

std::optional<Device> parse_device(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::optional<DeviceType> type = kind_of(kDeviceTypes, text.substr(0, colon));
  if (!type) {
    return std::nullopt;
  }
  Device device{.type = *type};
  if (colon != std::string_view::npos) {
    const char* begin = text.data() + colon + 1;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, device.index);
    if (error != std::errc() || stop != end || device.index < 0) {
      return std::nullopt;
    }
  }
  return device;
}

std::string_view to_string(MemoryFormat format) {
  return text_of(kMemoryFormats, format);
}

std::optional<MemoryFormat> parse_memory_format(std::string_view text) {
  return kind_of(kMemoryFormats, text);
}

std::string_view to_string(Layout layout) {
  return text_of(kLayouts, layout);
}

std::optional<Layout> parse_layout(std::string_view text) {
  return kind_of(kLayouts, text);
}

}  // namespace kiln::ir
