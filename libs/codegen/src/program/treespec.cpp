#include "program/treespec.hpp"

#include <string_view>

namespace kiln::codegen {
namespace {

std::string node(std::string_view type, std::string_view context, std::string_view children) {
  std::string text = "{\"type\": ";
  text += type;
  text += ", \"context\": ";
  text += context;
  text += ", \"children_spec\": [";
  text += children;
  return text + "]}";
}

std::string flat_tuple(std::size_t count) {
  std::string leaves;
  for (std::size_t i = 0; i < count; ++i) {
    leaves += (i ? ", " : "") + node("null", "null", "");
  }
  return node("\"builtins.tuple\"", "\"null\"", leaves);
}

// 1 is the version of the format.
std::string versioned(const std::string& spec) {
  return "[1, " + spec + "]";
}

}  // namespace

std::string flat_input_spec(std::size_t count) {
  const std::string no_keywords = node("\"builtins.dict\"", "\"[]\"", "");
  return versioned(node("\"builtins.tuple\"", "\"null\"", flat_tuple(count) + ", " + no_keywords));
}

std::string flat_output_spec(std::size_t count) {
  return versioned(flat_tuple(count));
}

}  // namespace kiln::codegen
