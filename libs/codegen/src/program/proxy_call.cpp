#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdio>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kiln/base/error.hpp"
#include "libtorch/call_path.hpp"
#include "program/extern_call.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen {
namespace {

using Base = SchemaType::Base;

std::string json_double(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.17g", value);
  std::string result = text.data();
  return result.find_first_of(".en") == std::string::npos ? result + ".0" : result;
}

// The archive format counts types its own way: no gaps at first, later additions at the end.
int archive_number(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kBool: return 12;
    case ir::DType::kBFloat16: return 13;
    case ir::DType::kUInt16: return 28;
    case ir::DType::kFloat8E4M3FN: return 29;
    case ir::DType::kFloat8E5M2: return 30;
    case ir::DType::kFloat8E4M3FNUZ: return 31;
    case ir::DType::kFloat8E5M2FNUZ: return 32;
    case ir::DType::kUInt32: return 34;
    case ir::DType::kUInt64: return 35;
    default: return static_cast<int>(dtype) + 1;
  }
}

// Before 2.12 the executor takes the numbers in its JSON for libtorch's own.
constexpr LibtorchVersion kFirstWithArchiveNumbers = {2, 12};

int archive_number(ir::Layout layout) {
  switch (layout) {
    case ir::Layout::kStrided: return 7;
    case ir::Layout::kSparse: return 1;
    case ir::Layout::kSparseCsr: return 2;
    case ir::Layout::kMkldnn: return 6;
  }
  return 0;
}

int archive_number(ir::MemoryFormat format) {
  switch (format) {
    case ir::MemoryFormat::kContiguous: return 1;
    case ir::MemoryFormat::kChannelsLast: return 2;
    case ir::MemoryFormat::kChannelsLast3d: return 3;
    case ir::MemoryFormat::kPreserve: return 4;
  }
  return 0;
}

std::string field(const char* key, const std::string& value) {
  return code("{\"$\": $}", key, value);
}

template <class Items, class Text>
std::string json_list(const Items& items, Text&& text) {
  std::string result;
  for (const auto& item : items) {
    result += (result.empty() ? "" : ", ") + text(item);
  }
  return code("[$]", result);
}

// The static half of a call goes to the JSON, the rest (tensors and integers) to the call itself.
class ProxyCall {
 public:
  ProxyCall(Emission& emission, const ir::Node& node) : emission_(emission), node_(node) {}

  void emit(const Signature& signature) {
    CodeWriter& text = emission_.text();
    if (std::ranges::any_of(node_.arguments, is_enumerated)) {
      require_numbering();
    }
    emission_.declare("aoti_torch_new_uninitialized_tensor", "Handle*");
    emission_.declare("aoti_torch_proxy_executor_call_function",
                      "void*, int, int, Int64*, int, Handle*");
    const std::size_t number = emission_.proxy_nodes.size();
    const CodeWriter::Scope block = text.scope();
    std::string inputs;
    for (std::size_t i = 0; i < node_.arguments.size(); ++i) {
      inputs += code("${\"name\": $, \"arg\": $, \"kind\": 1}",
                     i != 0 ? ", " : "",
                     json_string(signature.names[i]),
                     argument(signature.arguments[i], node_.arguments[i]));
    }
    const std::string outputs = results(signature);
    text.line("Int64 ints[] = {$};", ints_.empty() ? "0" : ints_);
    text.line("Handle tensors[] = {$};", tensors_);
    {
      const CodeWriter::Scope branch = text.scope("if (!call.proxy_executor)");
      text.line(
          "call.error = \"the model calls operators that need a proxy executor, and there is "
          "none\";");
      text.line("return 1;");
    }
    text.line(
        "TRY(aoti_torch_proxy_executor_call_function(call.proxy_executor, $, $, ints, "
        "$, tensors));",
        number,
        int_count_,
        tensor_count_);
    emission_.proxy_nodes.push_back(
        code("{\"name\": \"call$\", \"node\": {\"target\": $, \"inputs\": [$], \"outputs\": [$], "
             "\"metadata\": {}}}",
             number,
             json_string(target()),
             inputs,
             outputs));
  }

 private:
  [[nodiscard]] static bool is_enumerated(const ir::Argument& argument) {
    return std::holds_alternative<ir::DType>(argument) ||
           std::holds_alternative<ir::Layout>(argument) ||
           std::holds_alternative<ir::MemoryFormat>(argument);
  }

  [[nodiscard]] bool has_archive_numbers() const {
    return emission_.libtorch >= kFirstWithArchiveNumbers;
  }

  // The JSON is written for one numbering, and the host may have the other.
  void require_numbering() {
    emission_.declare("aoti_torch_abi_version", "void", "U64");
    CodeWriter& text = emission_.text();
    const CodeWriter::Scope branch =
        text.scope("if (aoti_torch_abi_version() >> 48 $ ($ULL << 8 | $))",
                   has_archive_numbers() ? "<" : ">=",
                   kFirstWithArchiveNumbers.major,
                   kFirstWithArchiveNumbers.minor);
    text.line("call.error = $;",
              string_literal(node_.target +
                             " takes a type, a layout or a memory format through the proxy "
                             "executor, and this libtorch counts those otherwise than libtorch " +
                             std::to_string(emission_.libtorch.major) + "." +
                             std::to_string(emission_.libtorch.minor) +
                             ", which the model was compiled for"));
    text.line("return 1;");
  }

  // As the executor counts them.
  template <class Enumeration>
  [[nodiscard]] std::string number_of(Enumeration value) const {
    return std::to_string(has_archive_numbers() ? archive_number(value) : static_cast<int>(value));
  }

  // "aten.add.Tensor" is written "aten::add.Tensor", "aten.clamp.default" just "aten::clamp".
  [[nodiscard]] std::string target() const {
    constexpr std::string_view kDefault = ".default";
    std::string name = node_.target;
    if (name.ends_with(kDefault)) {
      name.resize(name.size() - kDefault.size());
    }
    return name.replace(name.find('.'), 1, "::");
  }

  void pass_tensor(const std::string& handle) {
    tensors_ += (tensors_.empty() ? "" : ", ") + handle;
    ++tensor_count_;
  }

  void pass_int(const ir::Expr& value) {
    ints_ += (ints_.empty() ? "" : ", ") + emission_.number(value);
    ++int_count_;
  }

  // The name means nothing to the executor; the place in the list does.
  std::string tensor(ir::ValueId value) {
    pass_tensor(emission_.tensor(value, true));
    return field("name", json_string(emission_.program().graph->value(value).name));
  }

  std::string argument(const SchemaType& type, const ir::Argument& argument) {
    if (const auto* value = std::get_if<ir::ValueId>(&argument)) {
      if (!value->valid()) {
        return field("as_none", "true");
      }
      const ir::Value& operand = emission_.program().graph->value(*value);
      if (operand.is_tensor()) {
        return field("as_tensor", tensor(*value));
      }
      return integer(type, std::get<ir::SymIntMeta>(operand.meta).expr);
    }
    if (const auto* expr = std::get_if<ir::Expr>(&argument)) {
      return integer(type, *expr);
    }
    if (const auto* number = std::get_if<double>(&argument)) {
      return field("as_float", json_double(*number));
    }
    if (const auto* flag = std::get_if<bool>(&argument)) {
      return field("as_bool", *flag ? "true" : "false");
    }
    if (const auto* string = std::get_if<std::string>(&argument)) {
      return field("as_string", json_string(*string));
    }
    if (const auto* dtype = std::get_if<ir::DType>(&argument)) {
      return field("as_scalar_type", number_of(*dtype));
    }
    if (const auto* layout = std::get_if<ir::Layout>(&argument)) {
      return field("as_layout", number_of(*layout));
    }
    if (const auto* format = std::get_if<ir::MemoryFormat>(&argument)) {
      return field("as_memory_format", number_of(*format));
    }
    if (const auto* device = std::get_if<ir::Device>(&argument)) {
      return field(
          "as_device",
          "{\"type\": " + json_string(ir::to_string(ir::Device{device->type, -1})) +
              ", \"index\": " +
              (device->index < 0 ? "null" : std::to_string(static_cast<int>(device->index))) + "}");
    }
    return list(type, argument);
  }

  std::string integer(const SchemaType& type, const ir::Expr& value) {
    if (type.base == Base::kFloat && value.is_constant()) {
      return field("as_float", json_double(static_cast<double>(*value.constant())));
    }
    pass_int(value);
    return field("as_int", std::to_string(value.constant().value_or(0)));
  }

  std::string list(const SchemaType& type, const ir::Argument& argument) {
    if (const auto* tensors = std::get_if<std::vector<ir::ValueId>>(&argument)) {
      if (!type.optional_elements) {
        return field("as_tensors",
                     json_list(*tensors, [&](ir::ValueId value) { return tensor(value); }));
      }
      return field("as_optional_tensors", json_list(*tensors, [&](ir::ValueId value) {
                     return value.valid() ? field("as_tensor", tensor(value))
                                          : field("as_none", "true");
                   }));
    }
    if (const auto* numbers = std::get_if<std::vector<ir::Expr>>(&argument)) {
      return field("as_ints", json_list(*numbers, [&](const ir::Expr& number) {
                     pass_int(number);
                     return std::to_string(number.constant().value_or(0));
                   }));
    }
    if (const auto* doubles = std::get_if<std::vector<double>>(&argument)) {
      return field("as_floats", json_list(*doubles, json_double));
    }
    if (const auto* flags = std::get_if<std::vector<bool>>(&argument)) {
      return field("as_bools", json_list(*flags, [](bool flag) {
                     return std::string(flag ? "true" : "false");
                   }));
    }
    if (const auto* strings = std::get_if<std::vector<std::string>>(&argument)) {
      return field("as_strings", json_list(*strings, json_string));
    }
    return field("as_none", "true");
  }

  // The executor assigns to tensors that exist already, if only as empty handles.
  std::string destination(std::size_t result) {
    const ir::ValueId value = result < node_.results.size() ? node_.results[result] : ir::ValueId();
    const bool wanted = value.valid() && emission_.program().location(value).has_value();
    const std::string handle =
        wanted ? emission_.owned(emission_.program().location(value)->buffer) : emission_.scratch();
    emission_.text().line("TRY(aoti_torch_new_uninitialized_tensor(&$));", handle);
    pass_tensor(handle);
    return field("name", "\"r" + std::to_string(result) + "\"");
  }

  std::string results(const Signature& signature) {
    std::string text;
    std::size_t next = 0;
    for (const SchemaType& type : signature.results) {
      text += text.empty() ? "" : ", ";
      if (!type.list) {
        text += field("as_tensor", destination(next++));
        continue;
      }
      std::vector<std::string> items;
      for (std::size_t count = node_.results.size() - (signature.results.size() - 1); count > 0;
           --count) {
        items.push_back(destination(next++));
      }
      text += field("as_tensors", json_list(items, [](const std::string& item) { return item; }));
    }
    return text;
  }

  Emission& emission_;
  const ir::Node& node_;
  std::string ints_;
  std::string tensors_;
  int int_count_ = 0;
  int tensor_count_ = 0;
};

}  // namespace

void emit_proxy_call(Emission& emission, const ir::Node& node) {
  ProxyCall(emission, node).emit(signature_of(node));
}

}  // namespace kiln::codegen
