#include "text/source_text.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

namespace kiln::codegen {
namespace {

// With as many digits as the type needs; `suffix` names it.
std::string floating_literal(double value, int digits, const std::string& suffix) {
  if (std::isnan(value)) {
    return "__builtin_nan" + suffix + "(\"\")";
  }
  if (std::isinf(value)) {
    return (value > 0 ? "__builtin_inf" : "-__builtin_inf") + suffix + "()";
  }
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  std::string literal = text.data();
  if (literal.find_first_of(".e") == std::string::npos) {
    literal += ".0";
  }
  return literal + suffix;
}

}  // namespace

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string string_literal(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      literal += '\\';
      literal += c;
    } else if (c == '\n') {
      literal += "\\n";
    } else if (byte < 0x20 || byte == 0x7f || c == '?') {
      // Three octal digits end by themselves, unlike hexadecimal; a question mark could begin a
      // trigraph.
      std::array<char, 8> octal{};
      std::snprintf(octal.data(), octal.size(), "\\%03o", byte);
      literal += octal.data();
    } else {
      literal += c;
    }
  }
  return literal + '"';
}

std::string comment_line(std::string_view text) {
  constexpr std::size_t kMaxLength = 200;  // A kernel may come from hundreds of nodes.
  std::string result;
  for (const char c : text.substr(0, kMaxLength)) {
    const auto byte = static_cast<unsigned char>(c);
    result += byte < 0x20 || byte == 0x7f ? ' ' : (c == '\\' ? '/' : c);
  }
  return text.size() > kMaxLength ? result + " …" : result;
}

std::string integer_literal(std::int64_t value, std::string_view type) {
  if (type == "bool") {
    return value != 0 ? "true" : "false";
  }
  if (value == std::numeric_limits<std::int64_t>::min()) {
    return "(-0x7fffffffffffffffLL - 1)";  // The literal without its sign would not fit.
  }
  const std::string digits = std::to_string(value);
  return type == "long long" ? digits + "LL" : "(" + std::string(type) + ")" + digits;
}

std::string double_literal(double value) {
  return floating_literal(value, 17, "");
}

std::string float_literal(float value) {
  return floating_literal(static_cast<double>(value), 9, "f");
}

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20) {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\u%04x", byte);
      result += escaped.data();
    } else {
      result += c;
    }
  }
  return result + '"';
}

}  // namespace kiln::codegen
