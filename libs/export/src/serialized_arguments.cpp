#include "serialized_arguments.hpp"

#include <ATen/ScalarOps.h>
#include <c10/core/Scalar.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln::exporter {
namespace {

using Reader = std::function<c10::IValue(const Json&, const Environment&)>;

const c10::IValue& named(const Json& argument, const Environment& environment) {
  return environment.at(argument.at("name").get_ref<const std::string&>());
}

// A SymIntArgument, SymFloatArgument or SymBoolArgument: a name or a literal.
c10::IValue symbolic(const Json& argument, const Environment& environment) {
  const auto [tag, value] = read_union(argument);
  if (tag == "as_name") {
    return environment.at(value.get_ref<const std::string&>());
  }
  if (tag == "as_int") {
    return value.get<std::int64_t>();
  }
  if (tag == "as_bool") {
    return value.get<bool>();
  }
  return read_double(value);
}

std::optional<at::Tensor> optional_tensor(const Json& argument, const Environment& environment) {
  const auto [tag, value] = read_union(argument);
  return tag == "as_none" ? std::nullopt : std::optional(named(value, environment).toTensor());
}

template <class T, class Convert>
c10::List<T> list_of(const Json& items, Convert&& convert) {
  c10::List<T> result;
  for (const Json& item : items) {
    result.push_back(convert(item));
  }
  return result;
}

c10::List<at::Tensor> tensors(const Json& items, const Environment& environment) {
  return list_of<at::Tensor>(items,
                             [&](const Json& item) { return named(item, environment).toTensor(); });
}

template <class T>
c10::IValue plain(const Json& value, const Environment&) {
  return value.get<T>();
}

template <class T>
c10::IValue plain_list(const Json& value, const Environment&) {
  return list_of<T>(value, [](const Json& item) { return item.get<T>(); });
}

const std::map<std::string, Reader>& readers() {
  static const std::map<std::string, Reader> kReaders = {
      {"as_none", [](const Json&, const Environment&) { return c10::IValue(); }},
      {"as_tensor",
       [](const Json& value, const Environment& environment) { return named(value, environment); }},
      {"as_tensors",
       [](const Json& value, const Environment& environment) {
         return c10::IValue(tensors(value, environment));
       }},
      {"as_optional_tensor",
       [](const Json& value, const Environment& environment) {
         return c10::IValue(optional_tensor(value, environment));
       }},
      {"as_optional_tensors",
       [](const Json& value, const Environment& environment) {
         return c10::IValue(list_of<std::optional<at::Tensor>>(
             value, [&](const Json& item) { return optional_tensor(item, environment); }));
       }},
      {"as_nested_tensors",
       [](const Json& value, const Environment& environment) {
         return c10::IValue(list_of<c10::List<at::Tensor>>(
             value, [&](const Json& item) { return tensors(item, environment); }));
       }},
      {"as_int", plain<std::int64_t>},
      {"as_ints", plain_list<std::int64_t>},
      {"as_bool", plain<bool>},
      {"as_bools", plain_list<bool>},
      {"as_string", plain<std::string>},
      {"as_strings", plain_list<std::string>},
      {"as_float",
       [](const Json& value, const Environment&) { return c10::IValue(read_double(value)); }},
      {"as_floats",
       [](const Json& value, const Environment&) {
         return c10::IValue(list_of<double>(value, read_double));
       }},
      {"as_int_lists",
       [](const Json& value, const Environment&) {
         return c10::IValue(list_of<c10::List<std::int64_t>>(value, [](const Json& item) {
           return list_of<std::int64_t>(
               item, [](const Json& number) { return number.get<std::int64_t>(); });
         }));
       }},
      {"as_float_lists",
       [](const Json& value, const Environment&) {
         return c10::IValue(list_of<c10::List<double>>(
             value, [](const Json& item) { return list_of<double>(item, read_double); }));
       }},
      {"as_complex",
       [](const Json& value, const Environment&) {
         return c10::IValue(
             c10::complex<double>(read_double(value.at("real")), read_double(value.at("imag"))));
       }},
      {"as_sym_int", symbolic},
      {"as_sym_float", symbolic},
      {"as_sym_bool", symbolic},
      {"as_sym_ints",
       [](const Json& value, const Environment& environment) {
         return c10::IValue(list_of<std::int64_t>(
             value, [&](const Json& item) { return symbolic(item, environment).toInt(); }));
       }},
      {"as_sym_floats",
       [](const Json& value, const Environment& environment) {
         return c10::IValue(list_of<double>(
             value, [&](const Json& item) { return symbolic(item, environment).toDouble(); }));
       }},
      {"as_sym_bools",
       [](const Json& value, const Environment& environment) {
         return c10::IValue(list_of<bool>(
             value, [&](const Json& item) { return symbolic(item, environment).toBool(); }));
       }},
      {"as_scalar_type",
       [](const Json& value, const Environment&) { return c10::IValue(read_scalar_type(value)); }},
      {"as_memory_format",
       [](const Json& value, const Environment&) {
         return c10::IValue(read_memory_format(value));
       }},
      {"as_layout",
       [](const Json& value, const Environment&) { return c10::IValue(read_layout(value)); }},
      {"as_device",
       [](const Json& value, const Environment&) { return c10::IValue(read_device(value)); }},
      {"as_string_to_argument",
       [](const Json& value, const Environment& environment) {
         c10::impl::GenericDict result(c10::StringType::get(), c10::AnyType::get());
         for (const auto& [key, item] : value.items()) {
           result.insert(key, read_argument(item, environment));
         }
         return c10::IValue(std::move(result));
       }},
  };
  return kReaders;
}

const std::map<std::string, const char*>& unsupported_arguments() {
  static const std::map<std::string, const char*> kUnsupported = {
      {"as_graph", "a subgraph"},
      {"as_operator", "an operator"},
      {"as_custom_obj", "a custom object"}};
  return kUnsupported;
}

c10::IValue number_to_tensor(const c10::IValue& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number.toScalar());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

bool is_optional_tensor(const c10::TypePtr& type) {
  return type->kind() == c10::TypeKind::OptionalType &&
         without_optional(type)->kind() == c10::TypeKind::TensorType;
}

// Empty lists say nothing about their elements, and one number may stand for a list of them.
c10::IValue coerce_list(c10::IValue value,
                        const c10::TypePtr& element,
                        std::optional<std::int32_t> length) {
  const bool is_empty = value.isList() && value.toListRef().empty();
  const std::int64_t count = length.value_or(1);
  if (is_optional_tensor(element)) {
    if (!value.isTensorList()) {
      return is_empty ? c10::IValue(c10::List<std::optional<at::Tensor>>()) : value;
    }
    c10::List<std::optional<at::Tensor>> result;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      result.push_back(tensor);
    }
    return result;
  }
  switch (element->kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      if (value.isInt()) {
        return std::vector<std::int64_t>(static_cast<std::size_t>(count), value.toInt());
      }
      return is_empty ? c10::IValue(c10::List<std::int64_t>()) : value;
    case c10::TypeKind::FloatType:
      if (value.isIntList()) {
        const auto integers = value.toIntVector();
        return std::vector<double>(integers.begin(), integers.end());
      }
      if (value.isDouble()) {
        return std::vector<double>(static_cast<std::size_t>(count), value.toDouble());
      }
      return is_empty ? c10::IValue(c10::List<double>()) : value;
    case c10::TypeKind::BoolType: return is_empty ? c10::IValue(c10::List<bool>()) : value;
    case c10::TypeKind::TensorType: return is_empty ? c10::IValue(c10::List<at::Tensor>()) : value;
    case c10::TypeKind::NumberType: {
      c10::List<at::Scalar> result;
      for (const c10::IValue& item : value.toListRef()) {
        result.push_back(item.toScalar());
      }
      return result;
    }
    default: return value;
  }
}

}  // namespace

c10::IValue read_argument(const Json& argument, const Environment& environment) {
  const auto [tag, value] = read_union(argument);
  if (const auto reader = readers().find(tag); reader != readers().end()) {
    return reader->second(value, environment);
  }
  if (const auto found = unsupported_arguments().find(tag);
      found != unsupported_arguments().end()) {
    throw Error(ErrorCode::kUnsupported,
                std::string(found->second) + " as an argument cannot be traced");
  }
  throw Error(ErrorCode::kIncompatible, "unknown kind of argument " + tag + ": a newer schema?");
}

c10::IValue coerce(c10::IValue value, const c10::Argument& formal) {
  if (value.isNone()) {
    return value;
  }
  const c10::TypePtr type = without_optional(formal.real_type());
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return value.isScalar() || value.isBool() ? number_to_tensor(value) : value;
    case c10::TypeKind::FloatType:
      return value.isInt() ? c10::IValue(static_cast<double>(value.toInt())) : value;
    case c10::TypeKind::ListType:
      return coerce_list(
          std::move(value), type->castRaw<c10::ListType>()->getElementType(), formal.N());
    default: return value;
  }
}

}  // namespace kiln::exporter
