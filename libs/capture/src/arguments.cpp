#include "arguments.hpp"

#include <ATen/Context.h>
#include <c10/core/Scalar.h>

#include "kiln/base/error.hpp"

namespace kiln::capture {
namespace {

ir::Argument scalar_argument(const c10::Scalar& scalar) {
  if (scalar.isBoolean()) {
    return scalar.toBool();
  }
  if (scalar.isFloatingPoint()) {
    return scalar.toDouble();
  }
  if (scalar.isComplex()) {
    const c10::complex<double> value = scalar.toComplexDouble();
    return std::complex<double>(value.real(), value.imag());
  }
  return ir::Expr(scalar.toLong());
}

ir::Argument scalar_list_argument(const c10::IValue& list) {
  std::vector<double> floats;
  std::vector<ir::Expr> integers;
  bool is_mixed = false;
  for (const c10::IValue& item : list.toListRef()) {
    const c10::Scalar scalar = item.toScalar();
    floats.push_back(scalar.toDouble());
    if (scalar.isIntegral(/*includeBool=*/false)) {
      integers.emplace_back(scalar.toLong());
    }
    is_mixed =
        is_mixed || scalar.isBoolean() || scalar.type() != list.toListRef()[0].toScalar().type();
  }
  if (is_mixed) {
    throw Error(ErrorCode::kUnsupported,
                "a list of booleans, or of numbers of several types, cannot be recorded: what each "
                "one is decides the type of a result");
  }
  if (!integers.empty()) {
    return integers;
  }
  return floats;
}

const c10::Type& element_type(const c10::Type& type) {
  return *type.containedType(0);
}

ir::Argument list_argument(const c10::IValue& value,
                           const c10::Type& type,
                           const std::function<ir::ValueId(const at::Tensor&)>& value_of) {
  const c10::Type& element = element_type(type);
  switch (element.kind()) {
    case c10::TypeKind::TensorType:
    case c10::TypeKind::OptionalType: {
      std::vector<ir::ValueId> values;
      for (const c10::IValue& item : value.toListRef()) {
        const bool defined = item.isTensor() && item.toTensor().defined();
        values.push_back(defined ? value_of(item.toTensor()) : ir::ValueId());
      }
      return values;
    }
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: {
      std::vector<ir::Expr> integers;
      if (value.isIntList()) {
        for (const std::int64_t integer : value.toIntVector()) {
          integers.emplace_back(integer);
        }
      } else {
        for (const c10::IValue& item : value.toListRef()) {
          integers.emplace_back(item.isSymInt() ? item.toSymInt().guard_int(__FILE__, __LINE__)
                                                : item.toInt());
        }
      }
      return integers;
    }
    case c10::TypeKind::FloatType: return value.toDoubleVector();
    case c10::TypeKind::BoolType: {
      std::vector<bool> bools;
      for (const c10::IValue& item : value.toListRef()) {
        bools.push_back(item.toBool());
      }
      return bools;
    }
    case c10::TypeKind::NumberType: return scalar_list_argument(value);
    case c10::TypeKind::StringType: {
      std::vector<std::string> strings;
      for (const c10::IValue& item : value.toListRef()) {
        strings.push_back(item.toStringRef());
      }
      return strings;
    }
    default:
      throw Error(ErrorCode::kUnsupported,
                  "an argument of type " + type.str() + " cannot be recorded");
  }
}

c10::IValue list_ivalue(const ir::Argument& argument, const c10::Type& type) {
  const c10::TypeKind kind = element_type(type).kind();
  if (const auto* integers = std::get_if<std::vector<ir::Expr>>(&argument)) {
    c10::List<std::int64_t> list;
    for (const ir::Expr& integer : *integers) {
      if (!integer.constant()) {
        throw Error(ErrorCode::kUnsupported, "the size " + integer.to_string() + " is symbolic");
      }
      list.push_back(*integer.constant());
    }
    if (kind == c10::TypeKind::NumberType) {
      c10::List<at::Scalar> scalars;
      for (const std::int64_t integer : list) {
        scalars.push_back(integer);
      }
      return scalars;
    }
    if (kind == c10::TypeKind::FloatType) {
      c10::List<double> floats;
      for (const std::int64_t integer : list) {
        floats.push_back(static_cast<double>(integer));
      }
      return floats;
    }
    if (kind == c10::TypeKind::BoolType) {  // An empty list does not say what it is a list of.
      return c10::List<bool>();
    }
    return list;
  }
  if (const auto* floats = std::get_if<std::vector<double>>(&argument)) {
    if (kind == c10::TypeKind::NumberType) {
      c10::List<at::Scalar> scalars;
      for (const double number : *floats) {
        scalars.push_back(number);
      }
      return scalars;
    }
    return c10::List<double>(*floats);
  }
  if (const auto* bools = std::get_if<std::vector<bool>>(&argument)) {
    c10::List<bool> list;
    for (const bool item : *bools) {
      list.push_back(item);
    }
    return list;
  }
  if (const auto* strings = std::get_if<std::vector<std::string>>(&argument)) {
    c10::List<std::string> list;
    for (const std::string& item : *strings) {
      list.push_back(item);
    }
    return list;
  }
  throw Error(ErrorCode::kInvalidArgument, "expected a list for an argument of type " + type.str());
}

c10::IValue number_ivalue(const ir::Expr& expr, c10::TypeKind kind) {
  if (!expr.constant()) {
    throw Error(ErrorCode::kUnsupported, "the integer " + expr.to_string() + " is symbolic");
  }
  if (kind == c10::TypeKind::FloatType) {
    return static_cast<double>(*expr.constant());
  }
  return *expr.constant();
}

}  // namespace

ir::Argument to_argument(const c10::IValue& value,
                         const c10::Type& type,
                         const std::function<ir::ValueId(const at::Tensor&)>& value_of) {
  if (value.isNone()) {
    return std::monostate();
  }
  switch (type.kind()) {
    case c10::TypeKind::OptionalType: return to_argument(value, element_type(type), value_of);
    case c10::TypeKind::TensorType:
      if (!value.toTensor().defined()) {
        return std::monostate();
      }
      return value_of(value.toTensor());
    case c10::TypeKind::ListType: return list_argument(value, type, value_of);
    case c10::TypeKind::IntType: return ir::Expr(value.toInt());
    case c10::TypeKind::SymIntType:
      return ir::Expr(value.isSymInt() ? value.toSymInt().guard_int(__FILE__, __LINE__)
                                       : value.toInt());
    case c10::TypeKind::FloatType: return value.toDouble();
    case c10::TypeKind::BoolType: return value.toBool();
    case c10::TypeKind::NumberType: return scalar_argument(value.toScalar());
    case c10::TypeKind::StringType: return value.toStringRef();
    case c10::TypeKind::ScalarTypeType: return static_cast<ir::DType>(value.toInt());
    case c10::TypeKind::LayoutType: return static_cast<ir::Layout>(value.toInt());
    case c10::TypeKind::MemoryFormatType: return static_cast<ir::MemoryFormat>(value.toInt());
    case c10::TypeKind::DeviceObjType: {
      const c10::Device device = value.toDevice();
      return ir::Device{static_cast<ir::DeviceType>(device.type()), device.index()};
    }
    case c10::TypeKind::GeneratorType: {
      const at::Generator generator = value.toGenerator();
      if (generator != at::globalContext().defaultGenerator(generator.device())) {
        throw Error(ErrorCode::kUnsupported,
                    "the program draws from a generator of its own: only the default one, which "
                    "manual_seed sets, can be recorded");
      }
      return std::monostate();
    }
    default:
      throw Error(ErrorCode::kUnsupported,
                  "an argument of type " + type.str() + " cannot be recorded");
  }
}

c10::IValue to_ivalue(const ir::Argument& argument, const c10::Type& type) {
  if (std::holds_alternative<std::monostate>(argument)) {
    return type.kind() == c10::TypeKind::TensorType ? c10::IValue(at::Tensor()) : c10::IValue();
  }
  const c10::TypeKind kind = type.kind();
  if (kind == c10::TypeKind::OptionalType) {
    return to_ivalue(argument, element_type(type));
  }
  if (kind == c10::TypeKind::ListType) {
    return list_ivalue(argument, type);
  }
  if (const auto* expr = std::get_if<ir::Expr>(&argument)) {
    return number_ivalue(*expr, kind);
  }
  if (const auto* number = std::get_if<double>(&argument)) {
    return *number;
  }
  if (const auto* flag = std::get_if<bool>(&argument)) {
    return *flag;
  }
  if (const auto* text = std::get_if<std::string>(&argument)) {
    return *text;
  }
  if (const auto* number = std::get_if<std::complex<double>>(&argument)) {
    return c10::complex<double>(number->real(), number->imag());
  }
  if (const auto* dtype = std::get_if<ir::DType>(&argument)) {
    return static_cast<std::int64_t>(*dtype);
  }
  if (const auto* layout = std::get_if<ir::Layout>(&argument)) {
    return static_cast<std::int64_t>(*layout);
  }
  if (const auto* format = std::get_if<ir::MemoryFormat>(&argument)) {
    return static_cast<std::int64_t>(*format);
  }
  if (const auto* device = std::get_if<ir::Device>(&argument)) {
    return c10::Device(static_cast<c10::DeviceType>(device->type), device->index);
  }
  throw Error(ErrorCode::kUnsupported, "an argument of type " + type.str() + " cannot be replayed");
}

}  // namespace kiln::capture
