#include "text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

namespace kiln::ir {
namespace {

template <class Items, class Append>
void append_list(const Items& items, std::string* out, Append append) {
  *out += '[';
  bool first = true;
  for (const auto& item : items) {
    *out += first ? "" : ", ";
    first = false;
    append(item);
  }
  *out += ']';
}

void append_integer(std::int64_t value, std::string* out) {
  std::array<char, 24> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  (void)error;
  out->append(digits.data(), end);
}

}  // namespace

void append_double(double value, std::string* out) {
  if (std::isnan(value)) {
    *out += "nan";
    return;
  }
  if (std::isinf(value)) {
    *out += value < 0 ? "-inf" : "inf";
    return;
  }
  std::array<char, 40> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  (void)error;
  const std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
  *out += text;
  if (text.find_first_of(".e") == std::string_view::npos) {
    *out += ".0";
  }
}

void append_quoted(std::string_view text, std::string* out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  *out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (c == '\n') {
      *out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      *out += "\\x";
      *out += kHex[byte >> 4];
      *out += kHex[byte & 15];
    } else {
      *out += c;
    }
  }
  *out += '"';
}

void append_expr(const Expr& expr, std::string* out) {
  if (const auto constant = expr.constant()) {
    append_integer(*constant, out);
  } else {
    *out += expr.to_string();
  }
}

void append_value(const Graph& graph, ValueId id, std::string* out) {
  if (id.valid()) {
    *out += '%';
    *out += graph.value(id).name;
  } else {
    *out += "none";
  }
}

void append_argument(const Graph& graph, const Argument& argument, std::string* out) {
  const auto append = [&](const auto& value, const auto& self) -> void {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, std::monostate>) {
      *out += "none";
    } else if constexpr (std::is_same_v<T, ValueId>) {
      append_value(graph, value, out);
    } else if constexpr (std::is_same_v<T, Expr>) {
      append_expr(value, out);
    } else if constexpr (std::is_same_v<T, RealExpr>) {
      *out += value.to_string();
    } else if constexpr (std::is_same_v<T, double>) {
      append_double(value, out);
    } else if constexpr (std::is_same_v<T, bool>) {
      *out += value ? "true" : "false";
    } else if constexpr (std::is_same_v<T, std::string>) {
      append_quoted(value, out);
    } else if constexpr (std::is_same_v<T, std::complex<double>>) {
      *out += '(';
      append_double(value.real(), out);
      *out += std::signbit(value.imag()) ? "" : "+";
      append_double(value.imag(), out);
      *out += "j)";
    } else if constexpr (std::is_same_v<T, SubgraphRef>) {
      *out += '@' + std::to_string(value.index);
    } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
      append_list(value, out, [&](bool item) { self(item, self); });
      *out += value.empty() ? "bool" : "";
    } else if constexpr (std::is_enum_v<T> || std::is_same_v<T, Device>) {
      *out += to_string(value);
    } else {
      append_list(value, out, [&](const auto& item) { self(item, self); });
      // An empty list of integers is the plain one; the others say what they are lists of.
      if (value.empty()) {
        *out += std::is_same_v<T, std::vector<ValueId>>       ? "tensor"
                : std::is_same_v<T, std::vector<double>>      ? "float"
                : std::is_same_v<T, std::vector<std::string>> ? "string"
                                                              : "";
      }
    }
  };
  std::visit([&](const auto& value) { append(value, append); }, argument);
}

void append_type(const ValueMeta& meta, bool with_grad, std::string* out) {
  if (const auto* integer = std::get_if<SymIntMeta>(&meta)) {
    *out += "int(";
    append_expr(integer->expr, out);
    *out += ')';
    return;
  }
  const auto& tensor = std::get<TensorMeta>(meta);
  const auto append_item = [&](const Expr& expr) { append_expr(expr, out); };
  *out += to_string(tensor.dtype);
  append_list(tensor.sizes, out, append_item);
  const bool plain = tensor.strides == contiguous_strides(tensor.sizes);
  if (!plain) {
    append_list(tensor.strides, out, append_item);
    (*out)[out->rfind('[')] = '{';
    out->back() = '}';
  }
  if (tensor.offset != Expr(0)) {
    *out += '@';
    const bool simple = tensor.offset.is_constant();
    *out += simple ? "" : "(";
    append_expr(tensor.offset, out);
    *out += simple ? "" : ")";
  }
  if (tensor.storage.valid()) {
    *out += '#' + std::to_string(tensor.storage.index());
  }
  if (tensor.device != Device{}) {
    *out += ' ' + to_string(tensor.device);
  }
  *out += tensor.conjugate ? " conj" : "";
  *out += tensor.negative ? " neg" : "";
  *out += with_grad && tensor.requires_grad ? " grad" : "";
}

}  // namespace kiln::ir
