// The vocabulary of `torch/_export/serde/schema.py`: enumerations, devices, tensor metadata.

#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kiln::exporter {

using Json = nlohmann::json;

/// The schema version that is written; a larger major version cannot be read.
inline constexpr int kSchemaMajor = 8;
inline constexpr int kSchemaMinor = 20;

/// Each throws `Error` with `kIncompatible` for a number that is not in the schema.
[[nodiscard]] c10::ScalarType read_scalar_type(const Json& number);
[[nodiscard]] c10::Layout read_layout(const Json& number);
[[nodiscard]] c10::MemoryFormat read_memory_format(const Json& number);
[[nodiscard]] c10::Device read_device(const Json& device);

/// Each throws `Error` with `kUnsupported` for a value that the schema has no number for.
[[nodiscard]] Json write_scalar_type(c10::ScalarType type);
[[nodiscard]] Json write_layout(c10::Layout layout);
[[nodiscard]] Json write_memory_format(c10::MemoryFormat format);
[[nodiscard]] Json write_device(c10::Device device);

/// The type that an argument has if it is there.
[[nodiscard]] c10::TypePtr without_optional(const c10::TypePtr& type);

/// Infinities and not-a-number are strings in the schema.
[[nodiscard]] double read_double(const Json& number);
[[nodiscard]] Json write_double(double number);

/// The only member of a union: its tag and its value. Throws `kCorrupt` if `object` is not a union.
struct Union {
  std::string tag;
  const Json& value;
};
[[nodiscard]] Union read_union(const Json& object);

/// A SymInt: the integer, or the hint of its expression. Throws `kUnsupported` if there is none.
[[nodiscard]] std::int64_t read_int(const Json& sym_int);

/// Everything about a serialized tensor but its elements.
struct SerializedTensor {
  c10::ScalarType dtype;
  c10::Device device;
  c10::Layout layout;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t offset;
  bool requires_grad;
};
[[nodiscard]] SerializedTensor read_tensor_meta(const Json& meta);
[[nodiscard]] Json write_tensor_meta(const at::Tensor& tensor);

}  // namespace kiln::exporter
