#include "program/dispatcher_call.hpp"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "graph/aliases.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/grad_mode.hpp"
#include "libtorch/call_path.hpp"
#include "program/extern_call.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen {

// The callee takes over tensors, lists, strings and the cells of optionals.
const char* const kDispatcherFunctions = R"(
static int word(Handle tensor, U64& slot) {
  Handle copy = nullptr;
  const int error = aoti_torch_new_tensor_handle(tensor, &copy);
  slot = (U64)copy;
  return error;
}
static int word(const char* text, Size length, U64& slot) {
  void* string = nullptr;
  const int error = torch_new_string_handle(text, length, &string);
  slot = (U64)string;
  return error;
}
static int word(const U64* items, Size count, U64& slot) {
  void* list = nullptr;
  TRY(torch_new_list_reserve_size(count, &list));
  slot = (U64)list;
  for (Size i = 0; i < count; ++i) TRY(torch_list_push_back(list, items[i]));
  return 0;
}
static U64 word(double value) {
  U64 bits;
  __builtin_memcpy(&bits, &value, 8);
  return bits;
}
static U64 some(U64 value) {
  return (U64) new U64(value);
}
static void take(U64 word, Handle& tensor) {
  tensor = (Handle)word;
}
static void take_some(U64 word, Handle& tensor) {
  U64* const cell = (U64*)word;
  tensor = cell ? (Handle)*cell : nullptr;
  delete cell;
}
static int take_item(U64 list, Size index, Handle& tensor) {
  U64 item = 0;
  const int error = torch_list_get_item((void*)list, index, &item);
  tensor = (Handle)item;
  return error;
}
)";

namespace {

using Base = SchemaType::Base;

class DispatcherCall {
 public:
  DispatcherCall(Emission& emission, const ir::Node& node) : emission_(emission), node_(node) {}

  void emit(const Signature& signature) {
    declare();
    const std::size_t words = std::max(node_.arguments.size(), signature.results.size());
    CodeWriter& text = emission_.text();
    const CodeWriter::Scope block = text.scope();
    text.line("U64 s[$] = {};", std::max<std::size_t>(words, 1));
    const std::vector<ir::Alias> aliases = aliases_of(*emission_.program().graph, node_);
    for (std::size_t i = 0; i < node_.arguments.size(); ++i) {
      const bool aliased = std::any_of(aliases.begin(), aliases.end(), [&](const ir::Alias& alias) {
        return alias.argument == i;
      });
      argument(signature.arguments[i], node_.arguments[i], "s[" + std::to_string(i) + "]", aliased);
    }
    const auto [name, overload] = operator_name();
    const std::string call =
        code("aoti_torch_call_dispatcher($, $, s)", string_literal(name), string_literal(overload));
    if (ir::needs_grad_mode(node_)) {
      const std::string set = emission_.declare("aoti_torch_grad_mode_set_enabled", "bool", "void");
      text.line("$(true);", set);
      text.line("const int returned = $;", call);
      text.line("$(false);", set);
      text.line("TRY(returned);");
    } else {
      text.line("TRY($);", call);
    }
    results(signature);
  }

 private:
  void declare() {
    emission_.uses_dispatcher = true;
    emission_.declare("aoti_torch_call_dispatcher", "const char*, const char*, U64*");
    emission_.declare("aoti_torch_new_tensor_handle", "Handle, Handle*");
    emission_.declare("torch_new_string_handle", "const char*, Size, void**");
    emission_.declare("torch_new_list_reserve_size", "Size, void**");
    emission_.declare("torch_list_push_back", "void*, U64");
    emission_.declare("torch_list_get_item", "void*, Size, U64*");
    emission_.declare("torch_delete_list", "void*");
  }

  // "aten.sort.stable" is aten::sort, overload "stable"; "default" is the one without a name.
  std::pair<std::string, std::string> operator_name() const {
    const auto first = node_.target.find('.');
    const auto last = node_.target.rfind('.');
    ensure(first != std::string::npos && last > first, "an operator's name has too few parts");
    std::string overload = node_.target.substr(last + 1);
    return {node_.target.substr(0, first) + "::" + node_.target.substr(first + 1, last - first - 1),
            overload == "default" ? "" : overload};
  }

  void argument(const SchemaType& type,
                const ir::Argument& argument,
                const std::string& slot,
                bool aliased) {
    const auto* value = std::get_if<ir::ValueId>(&argument);
    const bool is_tensor =
        value != nullptr &&
        (!value->valid() || emission_.program().graph->value(*value).is_tensor());
    if (std::holds_alternative<std::monostate>(argument) || (is_tensor && !value->valid())) {
      return;  // None is 0.
    }
    CodeWriter& text = emission_.text();
    if (is_tensor) {
      text.line("TRY(word($, $));", handle(*value, aliased), slot);
    } else if (const auto* string = std::get_if<std::string>(&argument)) {
      text.line("TRY(word($, $, $));", string_literal(*string), string->size(), slot);
    } else if (type.list) {
      list(type, argument, slot);
    } else {
      text.line("$ = $;", slot, scalar(type, argument));
    }
    if (type.optional) {
      text.line("$ = some($);", slot, slot);
    }
  }

  // In grad mode libtorch would record history for inputs that require gradients; another handle on
  // the same memory requires none.
  std::string handle(ir::ValueId value, bool aliased) {
    return ir::needs_grad_mode(node_) ? emission_.detached(value)
                                      : emission_.tensor(value, aliased);
  }

  std::string scalar(const SchemaType& type, const ir::Argument& argument) const {
    if (const auto* expr = std::get_if<ir::Expr>(&argument)) {
      const std::string number = emission_.number(*expr);
      return type.base == Base::kFloat ? "word((double)(" + number + "))" : "(U64)(" + number + ")";
    }
    if (const auto* value = std::get_if<ir::ValueId>(&argument)) {
      const ir::ValueMeta& meta = emission_.program().graph->value(*value).meta;
      return code("(U64)($)", emission_.number(std::get<ir::SymIntMeta>(meta).expr));
    }
    if (const auto* number = std::get_if<double>(&argument)) {
      return code("word($)", double_literal(*number));
    }
    if (const auto* number = std::get_if<ir::RealExpr>(&argument)) {
      return code("word($)", emission_.number(*number));
    }
    if (const auto* flag = std::get_if<bool>(&argument)) {
      return *flag ? "1" : "0";
    }
    if (const auto* dtype = std::get_if<ir::DType>(&argument)) {
      return std::to_string(static_cast<int>(*dtype));
    }
    if (const auto* layout = std::get_if<ir::Layout>(&argument)) {
      return std::to_string(static_cast<int>(*layout));
    }
    if (const auto* format = std::get_if<ir::MemoryFormat>(&argument)) {
      return std::to_string(static_cast<int>(*format));
    }
    if (const auto* device = std::get_if<ir::Device>(&argument)) {
      // The kind above, the index below.
      return code("(U64)$ << 32 | (unsigned)$",
                  static_cast<int>(device->type),
                  static_cast<int>(device->index));
    }
    throw Error(ErrorCode::kInternal,
                node_.target + " has an argument that does not fit a StableIValue");
  }

  void list(const SchemaType& type, const ir::Argument& argument, const std::string& slot) {
    std::vector<std::string> items;
    CodeWriter& text = emission_.text();
    if (const auto* tensors = std::get_if<std::vector<ir::ValueId>>(&argument)) {
      const CodeWriter::Scope block = text.scope();
      text.line("U64 items[$] = {};", std::max<std::size_t>(tensors->size(), 1));
      for (std::size_t i = 0; i < tensors->size(); ++i) {
        SchemaType element = type;
        element.list = false;
        element.optional = type.optional_elements;
        this->argument(element, (*tensors)[i], "items[" + std::to_string(i) + "]", false);
      }
      text.line("TRY(word(items, $, $));", tensors->size(), slot);
      return;
    }
    if (const auto* numbers = std::get_if<std::vector<ir::Expr>>(&argument)) {
      for (const ir::Expr& number : *numbers) {
        items.push_back(scalar(type, number));
      }
    } else if (const auto* doubles = std::get_if<std::vector<double>>(&argument)) {
      for (const double number : *doubles) {
        items.push_back(scalar(type, number));
      }
    } else if (const auto* flags = std::get_if<std::vector<bool>>(&argument)) {
      for (const bool flag : *flags) {
        items.push_back(scalar(type, flag));
      }
    } else if (const auto* expr = std::get_if<ir::Expr>(&argument)) {
      items.push_back(scalar(type, *expr));  // "int[2] stride=1"
    }
    std::string joined;
    for (const std::string& item : items) {
      joined += (joined.empty() ? "" : ", ") + item;
    }
    if (items.empty()) {
      text.line("TRY(word((const U64*)nullptr, 0, $));", slot);
      return;
    }
    const CodeWriter::Scope block = text.scope();
    text.line("const U64 items[] = {$};", joined);
    text.line("TRY(word(items, $, $));", items.size(), slot);
  }

  std::string destination(std::size_t result) {
    const ir::ValueId value = result < node_.results.size() ? node_.results[result] : ir::ValueId();
    if (value.valid() && emission_.program().location(value)) {
      return emission_.owned(emission_.program().location(value)->buffer);
    }
    return emission_.scratch();
  }

  void results(const Signature& signature) {
    CodeWriter& text = emission_.text();
    std::size_t next = 0;
    for (std::size_t i = 0; i < signature.results.size(); ++i) {
      const SchemaType& type = signature.results[i];
      const std::string word = code("s[$]", i);
      if (!type.list) {
        text.line("$($, $);", type.optional ? "take_some" : "take", word, destination(next++));
        continue;
      }
      // Only one result may be a list: what the others leave is its.
      const std::size_t count = node_.results.size() - (signature.results.size() - 1);
      for (std::size_t k = 0; k < count; ++k) {
        text.line("TRY(take_item($, $, $));", word, k, destination(next++));
      }
      text.line("TRY(torch_delete_list((void*)$));", word);
    }
  }

  Emission& emission_;
  const ir::Node& node_;
};

}  // namespace

void emit_dispatcher_call(Emission& emission, const ir::Node& node) {
  DispatcherCall(emission, node).emit(signature_of(node));
}

}  // namespace kiln::codegen
