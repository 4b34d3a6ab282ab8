#include "backend/cpu/emit/type_names.hpp"

#include <string>

#include "kiln/base/error.hpp"

namespace kiln::codegen {

using ir::DType;

namespace {

struct TypeNames {
  DType dtype;
  std::string_view scalar, vector, memory;
};

constexpr TypeNames kTypes[] = {
    {DType::kFloat32, "float", "F32", "float"},
    {DType::kFloat64, "double", "F64", "double"},
    {DType::kInt64, "long long", "I64", "long long"},
    {DType::kInt32, "int", "I32", "int"},
    {DType::kInt16, "short", "I16", "short"},
    {DType::kInt8, "signed char", "I8", "signed char"},
    {DType::kUInt8, "unsigned char", "U8", "unsigned char"},
    {DType::kBool, "bool", "Mask", "Bool"},
    {DType::kFloat16, "float", "F32", "F16"},
    {DType::kBFloat16, "float", "F32", "Bf16"},
};

const TypeNames& names_of(DType dtype) {
  for (const TypeNames& names : kTypes) {
    if (names.dtype == dtype) {
      return names;
    }
  }
  throw Error(ErrorCode::kUnsupported,
              "no kernel can hold elements of type " + std::string(ir::to_string(dtype)));
}

}  // namespace

std::string_view scalar_type(DType dtype) {
  return names_of(dtype).scalar;
}
std::string_view vector_type(DType dtype) {
  return names_of(dtype).vector;
}
std::string_view memory_type(DType dtype) {
  return names_of(dtype).memory;
}

}  // namespace kiln::codegen
