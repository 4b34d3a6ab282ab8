#include "libtorch/signature.hpp"

#include <array>
#include <string>
#include <utility>

namespace kiln::codegen {
namespace {

using Base = SchemaType::Base;

constexpr std::array<std::pair<std::string_view, Base>, 15> kNames{{
    {"Tensor", Base::kTensor},
    {"int", Base::kInt},
    {"SymInt", Base::kInt},
    {"float", Base::kFloat},
    {"SymFloat", Base::kFloat},
    {"bool", Base::kBool},
    {"SymBool", Base::kBool},
    {"Scalar", Base::kScalar},
    {"number", Base::kScalar},
    {"str", Base::kString},
    {"ScalarType", Base::kDType},
    {"Device", Base::kDevice},
    {"Layout", Base::kLayout},
    {"MemoryFormat", Base::kMemoryFormat},
    {"Generator", Base::kGenerator},
}};

struct Named {
  SchemaType type;
  std::string name;
};

Named parse_type(std::string text) {
  // "Tensor(a!)[]" is "Tensor[]" here.
  for (auto open = text.find('('); open != std::string::npos; open = text.find('(')) {
    const auto close = text.find(')', open);
    text.erase(open, close == std::string::npos ? close : close - open + 1);
  }
  text.erase(0, text.find_first_not_of(' '));
  std::string name;
  if (const auto blank = text.find(' '); blank != std::string::npos) {
    name = text.substr(blank + 1);
    std::erase(name, ' ');
    text.erase(blank);
  }

  SchemaType type;
  if (text.ends_with('?')) {
    type.optional = true;
    text.pop_back();
  }
  if (text.ends_with(']')) {
    type.list = true;
    text.erase(text.rfind('['));
    if (text.ends_with('?')) {
      type.optional_elements = true;
      text.pop_back();
    }
  }
  for (const auto& [known, base] : kNames) {
    if (text == known) {
      type.base = base;
    }
  }
  return {type, name};
}

std::vector<Named> parse_list(std::string_view text) {
  std::vector<Named> types;
  while (!text.empty()) {
    const auto comma = text.find(',');
    types.push_back(parse_type(std::string(text.substr(0, comma))));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return types;
}

}  // namespace

Signature parse_signature(std::string_view text) {
  const auto arrow = text.find("->");
  Signature signature;
  for (Named& argument : parse_list(text.substr(0, arrow))) {
    signature.arguments.push_back(argument.type);
    signature.names.push_back(std::move(argument.name));
  }
  if (arrow != std::string_view::npos) {
    for (const Named& result : parse_list(text.substr(arrow + 2))) {
      signature.results.push_back(result.type);
    }
  }
  return signature;
}

}  // namespace kiln::codegen
