#include <algorithm>
#include <complex>
#include <string>
#include <variant>
#include <vector>

#include "graph/aliases.hpp"
#include "kiln/base/error.hpp"
#include "libtorch/call_path.hpp"
#include "libtorch/shim_table.hpp"
#include "program/extern_call.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen {
namespace {

using Base = SchemaType::Base;

// Writes one call: arguments by value, or by the address of a local where the schema says "or
// None".
class ShimCall {
 public:
  ShimCall(Emission& emission, const ir::Node& node) : emission_(emission), node_(node) {}

  void emit(const ShimFunction& shim) {
    const Signature signature = parse_signature(shim.signature);
    const CodeWriter::Scope block = emission_.text().scope();
    if (shim.out) {
      pass("Handle", emission_.tensor(node_.results.at(0)));
    }
    const std::vector<ir::Alias> aliases = aliases_of(*emission_.program().graph, node_);
    for (std::size_t i = 0; i < node_.arguments.size(); ++i) {
      const bool aliased = std::any_of(aliases.begin(), aliases.end(), [&](const ir::Alias& alias) {
        return alias.argument == i;
      });
      argument(signature.arguments[i], node_.arguments[i], aliased);
    }
    if (!shim.out) {
      for (std::size_t i = 0; i < signature.results.size(); ++i) {
        const ir::ValueId result = i < node_.results.size() ? node_.results[i] : ir::ValueId();
        pass("Handle*", "&" + destination(result));
      }
    }
    const std::string name = emission_.declare_for_device(std::string(shim.name), parameters_);
    emission_.text().line("TRY($($));", name, values_);
  }

 private:
  void pass(const std::string& type, const std::string& value) {
    parameters_ += (parameters_.empty() ? "" : ", ") + type;
    values_ += (values_.empty() ? "" : ", ") + value;
  }

  // A local variable, for what the shim takes by address.
  std::string local(const std::string& type, const std::string& suffix, const std::string& value) {
    const std::string name = "a" + std::to_string(locals_++);
    emission_.text().line("$ $$ = $;", type, name, suffix, value);
    return name;
  }

  std::string destination(ir::ValueId result) {
    if (result.valid() && emission_.program().location(result)) {
      return emission_.owned(emission_.program().location(result)->buffer);
    }
    return emission_.scratch();
  }

  void argument(const SchemaType& type, const ir::Argument& argument, bool aliased) {
    if (type.list) {
      list(type, argument);
    } else if (type.base == Base::kTensor) {
      tensor(type, argument, aliased);
    } else if (type.base == Base::kGenerator) {
      ensure(std::holds_alternative<std::monostate>(argument), "a generator is not None");
      pass("void**", "nullptr");
    } else {
      scalar(type, argument);
    }
  }

  void tensor(const SchemaType& type, const ir::Argument& argument, bool aliased) {
    const auto* value = std::get_if<ir::ValueId>(&argument);
    const bool none = value == nullptr || !value->valid();
    if (!type.optional) {
      ensure(!none, "a tensor argument is None");
      pass("Handle", emission_.tensor(*value, aliased));
    } else {
      pass("Handle*",
           none ? "nullptr" : "&" + local("Handle", "", emission_.tensor(*value, aliased)));
    }
  }

  static std::string c_type(Base base) {
    switch (base) {
      case Base::kInt: return "Int64";
      case Base::kFloat:
      case Base::kScalar: return "double";
      case Base::kString: return "const char*";
      default: return "int";
    }
  }

  std::string literal(const SchemaType& type, const ir::Argument& argument) const {
    if (const auto* expr = std::get_if<ir::Expr>(&argument)) {
      const std::string number = emission_.number(*expr);
      if (c_type(type.base) != "double") {
        return number;
      }
      return expr->is_constant() ? double_literal(static_cast<double>(*expr->constant()))
                                 : "(double)(" + number + ")";
    }
    if (const auto* value = std::get_if<ir::ValueId>(&argument)) {
      const ir::ValueMeta& meta = emission_.program().graph->value(*value).meta;
      return emission_.number(std::get<ir::SymIntMeta>(meta).expr);
    }
    if (const auto* number = std::get_if<double>(&argument)) {
      return double_literal(*number);
    }
    if (const auto* number = std::get_if<ir::RealExpr>(&argument)) {
      return emission_.number(*number);
    }
    if (const auto* flag = std::get_if<bool>(&argument)) {
      return *flag ? "1" : "0";
    }
    if (const auto* text = std::get_if<std::string>(&argument)) {
      return string_literal(*text);
    }
    if (const auto* dtype = std::get_if<ir::DType>(&argument)) {
      return std::to_string(static_cast<int>(*dtype));
    }
    if (const auto* device = std::get_if<ir::Device>(&argument)) {
      return std::to_string(static_cast<int>(device->type));
    }
    if (const auto* layout = std::get_if<ir::Layout>(&argument)) {
      return std::to_string(static_cast<int>(*layout));
    }
    if (const auto* format = std::get_if<ir::MemoryFormat>(&argument)) {
      return std::to_string(static_cast<int>(*format));
    }
    throw Error(ErrorCode::kUnsupported,
                node_.target + " has an argument that the C shim cannot take");
  }

  void scalar(const SchemaType& type, const ir::Argument& argument) {
    const std::string c = c_type(type.base);
    if (!type.optional) {
      pass(c, literal(type, argument));
    } else if (std::holds_alternative<std::monostate>(argument)) {
      pass(c + "*", "nullptr");
    } else {
      pass(c + "*", "&" + local(c, "", literal(type, argument)));
    }
    if (type.base == Base::kDevice) {
      const auto* device = std::get_if<ir::Device>(&argument);
      pass("int", std::to_string(device ? static_cast<int>(device->index) : 0));
    }
  }

  void list(const SchemaType& type, const ir::Argument& argument) {
    std::string array = "nullptr";
    std::size_t count = 0;
    std::string element;
    if (const auto* tensors = std::get_if<std::vector<ir::ValueId>>(&argument)) {
      count = tensors->size();
      element = "Handle";
      array = tensor_list(type, *tensors);
    } else if (const auto* flags = std::get_if<std::vector<bool>>(&argument)) {
      count = flags->size();
      element = "int";
      std::string items;
      for (const bool flag : *flags) {
        items += (items.empty() ? "" : ", ") + std::string(flag ? "1" : "0");
      }
      array = count == 0 ? array : local("static const int", "[]", "{" + items + "}");
    } else if (const auto* numbers = std::get_if<std::vector<ir::Expr>>(&argument)) {
      count = numbers->size();
      element = "Int64";
      array = emission_.list(*numbers);
    } else if (std::holds_alternative<std::monostate>(argument) && type.optional) {
      element = type.base == Base::kInt ? "Int64" : "int";
      pass("const " + element + "**", "nullptr");
      pass("Int64", "0");
      return;
    } else {
      throw Error(ErrorCode::kUnsupported,
                  node_.target + " has a list that the C shim cannot take");
    }
    if (type.optional) {
      pass("const " + element + "**", "&" + local("const " + element + "*", "", array));
    } else {
      pass("const " + element + (type.optional_elements ? "**" : "*"), array);
    }
    pass("Int64", std::to_string(count));
  }

  // An optional element is passed by its address.
  std::string tensor_list(const SchemaType& type, const std::vector<ir::ValueId>& tensors) {
    if (tensors.empty()) {
      return "nullptr";
    }
    std::string items;
    std::string addresses;
    for (const ir::ValueId value : tensors) {
      const std::string comma = items.empty() ? "" : ", ";
      items += comma + (value.valid() ? emission_.tensor(value) : "nullptr");
    }
    const std::string handles = local("const Handle", "[]", "{" + items + "}");
    if (!type.optional_elements) {
      return handles;
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      addresses += (i ? ", " : "") +
                   (tensors[i].valid() ? "&" + handles + "[" + std::to_string(i) + "]" : "nullptr");
    }
    return local("const Handle*", "[]", "{" + addresses + "}");
  }

  Emission& emission_;
  const ir::Node& node_;
  std::string parameters_;
  std::string values_;
  int locals_ = 0;
};

}  // namespace

void emit_shim_call(Emission& emission, const ir::Node& node, bool out) {
  const ShimFunction* shim = find_shim_function(node.target);
  ensure(shim != nullptr && shim->out == out, "an operator lost its shim");
  ShimCall(emission, node).emit(*shim);
}

}  // namespace kiln::codegen
