// Elements in memory as the evaluator has them.

#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kiln/base/error.hpp"
#include "kiln/ir/types.hpp"
#include "loop/evaluate.hpp"

namespace kiln::codegen::testing {

using ir::DType;

/// A float16.
inline float from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) {
    return static_cast<float>(mantissa == 0 ? sign * HUGE_VAL : std::nan(""));
  }
  return static_cast<float>(sign * (exponent == 0 ? std::ldexp(mantissa, -24)
                                                  : std::ldexp(mantissa + 1024, exponent - 25)));
}

/// The element of type `dtype` at `at`.
inline Element read_element(DType dtype, const std::byte* at) {
  const auto load = [&]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kFloat32: return {load(float{}), 0};
    case DType::kFloat64: return {load(double{}), 0};
    case DType::kBFloat16: {
      const std::uint32_t bits = static_cast<std::uint32_t>(load(std::uint16_t{})) << 16;
      return {std::bit_cast<float>(bits), 0};
    }
    case DType::kFloat16: return {from_half(load(std::uint16_t{})), 0};
    case DType::kInt64: return {0, load(std::int64_t{})};
    case DType::kInt32: return {0, load(std::int32_t{})};
    case DType::kInt16: return {0, load(std::int16_t{})};
    case DType::kInt8: return {0, load(std::int8_t{})};
    default: return {0, load(std::uint8_t{})};
  }
}

/// Writes `e` as one of type `dtype`.
inline void write_element(DType dtype, std::byte* at, Element e) {
  const auto store = [&](auto value) { std::memcpy(at, &value, sizeof value); };
  switch (dtype) {
    case DType::kFloat32: store(static_cast<float>(e.real)); break;
    case DType::kFloat64: store(e.real); break;
    case DType::kBFloat16:
      store(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(e.real)) >>
                                       16));
      break;
    case DType::kFloat16: {
      // Whole eighths are exact in a half; inputs of this type are made of them.
      const double value = std::round(e.real * 8) / 8;
      std::uint16_t best = 0;
      for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        if (from_half(static_cast<std::uint16_t>(bits)) == value) {
          best = static_cast<std::uint16_t>(bits);
          break;
        }
      }
      store(best);
      break;
    }
    case DType::kInt64: store(e.integer); break;
    case DType::kInt32: store(static_cast<std::int32_t>(e.integer)); break;
    case DType::kInt16: store(static_cast<std::int16_t>(e.integer)); break;
    case DType::kInt8: store(static_cast<std::int8_t>(e.integer)); break;
    case DType::kBool: store(static_cast<std::uint8_t>(e.integer != 0)); break;
    default: store(static_cast<std::uint8_t>(e.integer)); break;
  }
}

}  // namespace kiln::codegen::testing
