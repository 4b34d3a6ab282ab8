#include "container/geometry.hpp"

#include <array>
#include <cstddef>

#include "container/failure.hpp"

namespace kiln::container {
namespace {

// c10::ScalarType and c10::DeviceType in their order, which libtorch keeps for saved files.
constexpr std::array kDtypeNames = {"uint8",           "int8",
                                    "int16",           "int32",
                                    "int64",           "float16",
                                    "float32",         "float64",
                                    "complex32",       "complex64",
                                    "complex128",      "bool",
                                    "qint8",           "quint8",
                                    "qint32",          "bfloat16",
                                    "quint4x2",        "quint2x4",
                                    "bits1x8",         "bits2x4",
                                    "bits4x2",         "bits8",
                                    "bits16",          "float8_e5m2",
                                    "float8_e4m3fn",   "float8_e5m2fnuz",
                                    "float8_e4m3fnuz", "uint16",
                                    "uint32",          "uint64"};

std::string list(const std::int64_t* values, std::int64_t count) {
  std::string text = "[";
  for (std::int64_t i = 0; i < count; ++i) {
    text += i == 0 ? "" : ", ";
    text += values[i] < 0 ? "?" : std::to_string(values[i]);
  }
  return text + "]";
}

std::string but_got(const char* what, const std::string& expected, const std::string& actual) {
  return std::string("expected ") + what + " " + expected + ", but got " + actual;
}

bool is_empty(const Geometry& geometry) noexcept {
  for (std::int64_t i = 0; i < geometry.rank; ++i) {
    if (geometry.sizes[i] == 0) {
      return true;
    }
  }
  return false;
}

Geometry compiled(const KilnTensor& tensor) noexcept {
  return {tensor.dtype, tensor.device_type, -1, tensor.rank, tensor.sizes, tensor.strides};
}

std::string device_text(const Geometry& geometry) {
  const std::string name = device_name(geometry.device_type);
  return geometry.device_index < 0 ? name : name + ":" + std::to_string(geometry.device_index);
}

[[noreturn]] void throw_input_failure(const KilnTensor& input,
                                      std::size_t index,
                                      const std::string& why) {
  throw Failure("input " + std::to_string(index) + " '" + input.name + "': " + why);
}

}  // namespace

bool sizes_match(const Geometry& expected, const Geometry& actual) noexcept {
  for (std::int64_t i = 0; i < expected.rank; ++i) {
    if (expected.sizes[i] != actual.sizes[i] && expected.sizes[i] >= 0) {
      return false;
    }
  }
  return true;
}

bool strides_match(const Geometry& expected, const Geometry& actual) noexcept {
  for (std::int64_t i = 0; i < expected.rank; ++i) {
    if (expected.strides[i] != actual.strides[i] && expected.strides[i] >= 0 &&
        actual.sizes[i] != 1) {
      return is_empty(actual);
    }
  }
  return true;
}

std::string difference(const Geometry& expected, const Geometry& actual) {
  if (expected.dtype != actual.dtype) {
    return but_got("dtype", dtype_name(expected.dtype), dtype_name(actual.dtype));
  }
  if (!devices_match(expected, actual)) {
    return but_got("device", device_text(expected), device_text(actual));
  }
  if (expected.rank != actual.rank) {
    return but_got("rank", std::to_string(expected.rank), std::to_string(actual.rank));
  }
  if (!sizes_match(expected, actual)) {
    return but_got("sizes", list(expected.sizes, expected.rank), list(actual.sizes, actual.rank));
  }
  if (!strides_match(expected, actual)) {
    return but_got(
        "strides", list(expected.strides, expected.rank), list(actual.strides, actual.rank));
  }
  return "";
}

std::string dtype_name(std::int32_t dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  return dtype >= 0 && index < kDtypeNames.size() ? kDtypeNames[index]
                                                  : "dtype " + std::to_string(dtype);
}

std::string device_name(std::int32_t device_type) {
  if (device_type == aoti_torch_device_type_cpu()) {
    return "cpu";
  }
  if (device_type == aoti_torch_device_type_cuda()) {
    return "cuda";
  }
  return device_type == aoti_torch_device_type_meta()
             ? "meta"
             : "device type " + std::to_string(device_type);
}

void check_inputs(const KilnModel& model,
                  std::int32_t device_index,
                  AtenTensorHandle const* inputs) {
  const auto count = static_cast<std::size_t>(model.num_inputs);
  for (std::size_t i = 0; i < count; ++i) {
    const KilnTensor& input = model.inputs[i];
    Geometry actual;
    if (!read_geometry(inputs[i], actual)) {
      throw_input_failure(input, i, "expected a strided tensor: " + shim_message());
    }
    Geometry expected = compiled(input);
    expected.device_index = device_index;
    if (expected.dtype != actual.dtype || !devices_match(expected, actual) ||
        expected.rank != actual.rank || !sizes_match(expected, actual) ||
        !strides_match(expected, actual)) [[unlikely]] {
      throw_input_failure(input, i, difference(expected, actual));
    }
  }
}

}  // namespace kiln::container
