#include "serialized_types.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::exporter {
namespace {

template <class T, std::size_t kCount>
using Numbers = std::array<std::pair<int, T>, kCount>;

constexpr Numbers<c10::ScalarType, 21> kScalarTypes = {{
    {1, c10::ScalarType::Byte},
    {2, c10::ScalarType::Char},
    {3, c10::ScalarType::Short},
    {4, c10::ScalarType::Int},
    {5, c10::ScalarType::Long},
    {6, c10::ScalarType::Half},
    {7, c10::ScalarType::Float},
    {8, c10::ScalarType::Double},
    {9, c10::ScalarType::ComplexHalf},
    {10, c10::ScalarType::ComplexFloat},
    {11, c10::ScalarType::ComplexDouble},
    {12, c10::ScalarType::Bool},
    {13, c10::ScalarType::BFloat16},
    {28, c10::ScalarType::UInt16},
    {29, c10::ScalarType::Float8_e4m3fn},
    {30, c10::ScalarType::Float8_e5m2},
    {31, c10::ScalarType::Float8_e4m3fnuz},
    {32, c10::ScalarType::Float8_e5m2fnuz},
    {33, c10::ScalarType::Float8_e8m0fnu},
    {34, c10::ScalarType::UInt32},
    {35, c10::ScalarType::UInt64},
}};

constexpr Numbers<c10::Layout, 7> kLayouts = {{
    {1, c10::Layout::Sparse},
    {2, c10::Layout::SparseCsr},
    {3, c10::Layout::SparseCsc},
    {4, c10::Layout::SparseBsr},
    {5, c10::Layout::SparseBsc},
    {6, c10::Layout::Mkldnn},
    {7, c10::Layout::Strided},
}};

constexpr Numbers<c10::MemoryFormat, 4> kMemoryFormats = {{
    {1, c10::MemoryFormat::Contiguous},
    {2, c10::MemoryFormat::ChannelsLast},
    {3, c10::MemoryFormat::ChannelsLast3d},
    {4, c10::MemoryFormat::Preserve},
}};

template <class T, std::size_t kCount>
T read_number(const Numbers<T, kCount>& numbers, const Json& json, const char* what) {
  for (const auto& [number, value] : numbers) {
    if (json == number) {
      return value;
    }
  }
  throw Error(ErrorCode::kIncompatible, std::string("unknown ") + what + " " + json.dump());
}

template <class T, std::size_t kCount>
Json write_number(const Numbers<T, kCount>& numbers, T wanted, const char* what) {
  for (const auto& [number, value] : numbers) {
    if (value == wanted) {
      return number;
    }
  }
  throw Error(ErrorCode::kUnsupported,
              std::string("a .pt2 archive has no number for this ") + what + ": " +
                  std::to_string(static_cast<int>(wanted)));
}

std::vector<std::int64_t> read_ints(const Json& sym_ints) {
  std::vector<std::int64_t> result;
  for (const Json& item : sym_ints) {
    result.push_back(read_int(item));
  }
  return result;
}

Json write_ints(c10::IntArrayRef values) {
  Json result = Json::array();
  for (const std::int64_t value : values) {
    result.push_back({{"as_int", value}});
  }
  return result;
}

}  // namespace

c10::ScalarType read_scalar_type(const Json& number) {
  return read_number(kScalarTypes, number, "dtype");
}

c10::Layout read_layout(const Json& number) {
  return read_number(kLayouts, number, "layout");
}

c10::MemoryFormat read_memory_format(const Json& number) {
  return read_number(kMemoryFormats, number, "memory format");
}

c10::Device read_device(const Json& device) {
  c10::Device result(device.at("type").get<std::string>());
  if (const auto index = device.find("index"); index != device.end() && !index->is_null()) {
    result.set_index(index->get<c10::DeviceIndex>());
  }
  return result;
}

c10::TypePtr without_optional(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

Json write_scalar_type(c10::ScalarType type) {
  return write_number(kScalarTypes, type, "dtype");
}

Json write_layout(c10::Layout layout) {
  return write_number(kLayouts, layout, "layout");
}

Json write_memory_format(c10::MemoryFormat format) {
  return write_number(kMemoryFormats, format, "memory format");
}

Json write_device(c10::Device device) {
  Json result = {{"type", c10::DeviceTypeName(device.type(), /*lower_case=*/true)},
                 {"index", nullptr}};
  if (device.has_index()) {
    result["index"] = device.index();
  }
  return result;
}

double read_double(const Json& number) {
  if (!number.is_string()) {
    return number.get<double>();
  }
  const auto& text = number.get_ref<const std::string&>();
  if (text == "Infinity") {
    return std::numeric_limits<double>::infinity();
  }
  if (text == "-Infinity") {
    return -std::numeric_limits<double>::infinity();
  }
  if (text == "NaN") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  throw Error(ErrorCode::kCorrupt, "\"" + text + "\" is not a number");
}

Json write_double(double number) {
  if (std::isnan(number)) {
    return "NaN";
  }
  if (std::isinf(number)) {
    return number > 0 ? "Infinity" : "-Infinity";
  }
  return number;
}

Union read_union(const Json& object) {
  if (!object.is_object() || object.size() != 1) {
    throw Error(ErrorCode::kCorrupt,
                "expected a union of one member, found " + object.dump().substr(0, 80));
  }
  return {object.begin().key(), object.begin().value()};
}

std::int64_t read_int(const Json& sym_int) {
  const auto [tag, value] = read_union(sym_int);
  if (tag == "as_int") {
    return value.get<std::int64_t>();
  }
  const auto hint = value.find("hint");
  if (hint == value.end() || hint->is_null()) {
    throw Error(
        ErrorCode::kUnsupported,
        "the size " + value.value("expr_str", "?") + " depends on data: it has no sample value");
  }
  return read_union(*hint).value.get<std::int64_t>();
}

SerializedTensor read_tensor_meta(const Json& meta) {
  return {.dtype = read_scalar_type(meta.at("dtype")),
          .device = read_device(meta.at("device")),
          .layout = read_layout(meta.at("layout")),
          .sizes = read_ints(meta.at("sizes")),
          .strides = read_ints(meta.at("strides")),
          .offset = read_int(meta.at("storage_offset")),
          .requires_grad = meta.at("requires_grad").get<bool>()};
}

Json write_tensor_meta(const at::Tensor& tensor) {
  return {{"dtype", write_scalar_type(tensor.scalar_type())},
          {"sizes", write_ints(tensor.sizes())},
          {"requires_grad", tensor.requires_grad()},
          {"device", write_device(tensor.device())},
          {"strides", write_ints(tensor.strides())},
          {"storage_offset", {{"as_int", tensor.storage_offset()}}},
          {"layout", write_layout(tensor.layout())}};
}

}  // namespace kiln::exporter
