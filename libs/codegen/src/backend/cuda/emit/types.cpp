#include "backend/cuda/emit/types.hpp"

#include <cstdint>
#include <limits>

#include "kiln/base/error.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen::cuda {

using ir::DType;

std::string_view compute_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32: return "float";
    case DType::kFloat64: return "double";
    case DType::kInt64: return "long long";
    case DType::kInt32: return "int";
    case DType::kInt16: return "short";
    case DType::kInt8: return "signed char";
    case DType::kUInt8: return "unsigned char";
    case DType::kBool: return "bool";
    default:
      throw Error(ErrorCode::kUnsupported,
                  "no CUDA kernel computes elements of " + std::string(ir::to_string(dtype)));
  }
}

std::string_view memory_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return "Half";
    case DType::kBFloat16: return "BFloat16";
    case DType::kBool: return "Bool";
    default: return compute_type(dtype);
  }
}

namespace {

// NVRTC knows no __builtin_inf.
std::string real_literal(double value, DType dtype) {
  const bool is_double = dtype == DType::kFloat64;
  value = is_double ? value : static_cast<float>(value);  // Which may be infinite.
  if (value != value) {
    return is_double ? "kNan" : "(float)kNan";
  }
  if (value == std::numeric_limits<double>::infinity()) {
    return is_double ? "kInfinity" : "(float)kInfinity";
  }
  if (value == -std::numeric_limits<double>::infinity()) {
    return is_double ? "-kInfinity" : "-(float)kInfinity";
  }
  return is_double ? double_literal(value) : float_literal(static_cast<float>(value));
}

}  // namespace

std::string literal(const Scalar& constant) {
  return ir::is_floating_point(constant.dtype)
             ? real_literal(constant.real, constant.dtype)
             : integer_literal(constant.integer, compute_type(constant.dtype));
}

std::string_view combiner(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum: return "Sum";
    case Reduction::kProduct: return "Product";
    case Reduction::kMaximum: return "Maximum";
    case Reduction::kMinimum: return "Minimum";
    case Reduction::kAny: return "Any";
    case Reduction::kAll: return "All";
  }
  return "";
}

std::string neutral(Reduction reduction, DType dtype) {
  if (dtype == DType::kBool) {
    const bool is_true = reduction == Reduction::kProduct || reduction == Reduction::kMinimum ||
                         reduction == Reduction::kAll;
    return is_true ? "true" : "false";
  }
  const bool is_real = ir::is_floating_point(dtype);
  const int bits = static_cast<int>(ir::size_of(dtype)) * 8;
  const bool is_signed = dtype != DType::kUInt8;
  const std::int64_t largest = bits == 64 ? std::numeric_limits<std::int64_t>::max()
                                          : (std::int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string_view type = compute_type(dtype);
  switch (reduction) {
    case Reduction::kProduct:
    case Reduction::kAll: return is_real ? real_literal(1, dtype) : integer_literal(1, type);
    case Reduction::kMaximum:
      return is_real ? real_literal(-infinity, dtype)
                     : integer_literal(is_signed ? -largest - 1 : 0, type);
    case Reduction::kMinimum:
      return is_real ? real_literal(infinity, dtype) : integer_literal(largest, type);
    default: return is_real ? real_literal(0, dtype) : integer_literal(0, type);
  }
}

}  // namespace kiln::codegen::cuda
