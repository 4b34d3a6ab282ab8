#include "operator_call.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "serialized_arguments.hpp"

namespace kiln::exporter {
namespace {

constexpr std::string_view kPrefix = "torch.ops.";

// Overloads that take a number where the overload in the graph takes a tensor.
constexpr std::array<const char*, 6> kNumberOverloads = {
    "Scalar", "Scalar_mode", "Tensor_Scalar", "Scalar_Tensor", "ScalarOther", "ScalarSelf"};

using NamedArguments = std::map<std::string, c10::IValue>;

bool is_number(const c10::IValue& value) {
  return value.isScalar() || value.isBool();
}

c10::TypeKind kind_of(const c10::Argument& argument) {
  const c10::TypePtr type = argument.real_type();
  const auto optional = type->cast<c10::OptionalType>();
  return (optional ? optional->getElementType() : type)->kind();
}

bool takes_numbers(const c10::FunctionSchema& given,
                   const c10::FunctionSchema& candidate,
                   const NamedArguments& values) {
  if (given.arguments().size() != candidate.arguments().size()) {
    return false;
  }
  for (std::size_t i = 0; i < given.arguments().size(); ++i) {
    const c10::Argument& from = given.arguments()[i];
    const c10::Argument& to = candidate.arguments()[i];
    const auto value = values.find(from.name());
    const bool literal = kind_of(from) == c10::TypeKind::TensorType && value != values.end() &&
                         is_number(value->second);
    if (from.name() != to.name() ||
        (literal ? kind_of(to) != c10::TypeKind::NumberType : kind_of(from) != kind_of(to))) {
      return false;
    }
  }
  return true;
}

c10::OperatorHandle with_literals(const c10::OperatorHandle& handle, const NamedArguments& values) {
  bool has_literal = false;
  for (const c10::Argument& formal : handle.schema().arguments()) {
    const auto value = values.find(formal.name());
    has_literal |= kind_of(formal) == c10::TypeKind::TensorType && value != values.end() &&
                   is_number(value->second);
  }
  if (has_literal) {
    for (const char* overload : kNumberOverloads) {
      const auto candidate =
          c10::Dispatcher::singleton().findSchema({handle.operator_name().name, overload});
      if (candidate && takes_numbers(handle.schema(), candidate->schema(), values)) {
        return *candidate;
      }
    }
  }
  return handle;
}

// What to do about operators of `space` that are not there.
std::string remedy_for(const std::string& space) {
  static const std::map<std::string, std::string> kLibraries = {
      {"torchvision", "torchvision's libtorchvision.so"},
      {"torchaudio", "torchaudio's libtorchaudio.so"},
      {"fbgemm", "FBGEMM's fbgemm_gpu_py.so"},
      {"torchao", "torchao's shared library"},
      {"xformers", "xFormers' _C.so"},
  };
  if (space == "aten") {
    return " in this libtorch";
  }
  const auto library = kLibraries.find(space);
  return "; load the library that registers " + space + "::* first" +
         (library == kLibraries.end() ? "" : ", " + library->second);
}

c10::OperatorHandle find_operator(const std::string& target) {
  const std::string_view name = std::string_view(target).substr(kPrefix.size());
  const std::size_t first = name.find('.');
  const std::size_t last = name.rfind('.');
  if (first == std::string_view::npos || first == last) {
    throw Error(ErrorCode::kCorrupt, target + " is not an operator name");
  }
  const std::string space(name.substr(0, first));
  const std::string overload(name.substr(last + 1));
  const auto handle = c10::Dispatcher::singleton().findSchema(
      {space + "::" + std::string(name.substr(first + 1, last - first - 1)),
       overload == "default" ? "" : overload});
  if (!handle) {
    throw Error(ErrorCode::kUnsupported,
                "the operator " + target + " is not registered" + remedy_for(space));
  }
  return *handle;
}

}  // namespace

std::vector<c10::IValue> call_operator(const std::string& target,
                                       const Json& inputs,
                                       const Environment& environment) {
  c10::OperatorHandle handle = find_operator(target);
  std::vector<c10::IValue> stack;
  try {
    NamedArguments values;
    const std::vector<c10::Argument>& formals = handle.schema().arguments();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      auto name = inputs[i].at("name").get<std::string>();
      if (name.empty() && i < formals.size()) {  // By position, within a call with effects.
        name = formals[i].name();
      }
      values[name] = read_argument(inputs[i].at("arg"), environment);
    }
    handle = with_literals(handle, values);
    for (const c10::Argument& formal : handle.schema().arguments()) {
      if (const auto value = values.find(formal.name()); value != values.end()) {
        stack.push_back(coerce(std::move(value->second), formal));
        values.erase(value);
      } else if (formal.default_value()) {
        stack.push_back(*formal.default_value());
      } else {
        throw Error(ErrorCode::kCorrupt, target + " lacks its argument " + formal.name());
      }
    }
    if (!values.empty()) {
      throw Error(ErrorCode::kIncompatible, target + " has no argument " + values.begin()->first);
    }
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::kCorrupt,
                target + " has a bad argument: " + error.what_without_backtrace());
  }
  handle.callBoxed(stack);
  return stack;
}

}  // namespace kiln::exporter
