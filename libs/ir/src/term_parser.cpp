#include "term_parser.hpp"

#include <charconv>
#include <complex>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::ir {
namespace {

std::optional<double> parse_double(std::string_view text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

/// "(1.0+2.0j)"
std::optional<std::complex<double>> parse_complex(std::string_view text) {
  if (text.size() < 6 || text.front() != '(' || !text.ends_with("j)")) {
    return std::nullopt;
  }
  text = text.substr(1, text.size() - 3);
  double real = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), real);
  if (error != std::errc()) {
    return std::nullopt;
  }
  std::string_view rest = text.substr(static_cast<std::size_t>(stop - text.data()));
  rest.remove_prefix(rest.starts_with('+') ? 1 : 0);
  const std::optional<double> imaginary = parse_double(rest);
  return imaginary ? std::optional(std::complex<double>(real, *imaginary)) : std::nullopt;
}

}  // namespace

Expr TermParser::expression() {
  const std::size_t begin = scanner_.start();
  const std::string_view text = scanner_.raw_item();
  return expression_of(text, begin);
}

Expr TermParser::expression_of(std::string_view text, std::size_t begin) {
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && stop == text.data() + text.size()) {
    return Expr(value);
  }
  try {
    return Expr::parse(text);
  } catch (const Error& problem) {
    scanner_.fail_at(begin, std::string("an integer expression (") + problem.what() + ")");
  }
}

Argument TermParser::real_expression_of(std::string_view text, std::size_t begin) {
  try {
    return argument_of(RealExpr::parse(text));
  } catch (const Error& problem) {
    scanner_.fail_at(begin, std::string("a number that depends on sizes (") + problem.what() + ")");
  }
}

std::vector<Expr> TermParser::expression_list(char close) {
  std::vector<Expr> items;
  while (!scanner_.accept(close)) {
    if (!items.empty()) {
      scanner_.expect(',');
    }
    items.push_back(expression());
  }
  return items;
}

ValueMeta TermParser::type() {
  if (scanner_.accept_word("int")) {
    scanner_.expect('(');
    SymIntMeta meta{.expr = expression()};
    scanner_.expect(')');
    return meta;
  }
  TensorMeta meta;
  const std::optional<DType> dtype = parse_dtype(scanner_.peek_word());
  if (!dtype) {
    scanner_.fail("a type such as f32[8, 16] or int(s0)");
  }
  (void)scanner_.word();
  meta.dtype = *dtype;
  scanner_.expect('[');
  meta.sizes = expression_list(']');
  meta.strides = scanner_.accept('{') ? expression_list('}') : contiguous_strides(meta.sizes);
  if (scanner_.accept('@')) {
    if (scanner_.accept('(')) {
      meta.offset = expression();
      scanner_.expect(')');
    } else {
      meta.offset = scanner_.integer("an offset: an integer, or an expression in brackets");
    }
  }
  if (scanner_.accept('#')) {
    meta.storage = StorageId(scanner_.index("a storage id"));
  }
  while (true) {
    if (scanner_.accept_word("conj")) {
      meta.conjugate = true;
    } else if (scanner_.accept_word("neg")) {
      meta.negative = true;
    } else if (scanner_.accept_word("grad")) {
      meta.requires_grad = true;
    } else if (parse_device(scanner_.peek_word())) {
      std::string device(scanner_.word());
      if (scanner_.accept(':')) {
        device += ':' + std::to_string(scanner_.index("a device's number"));
      }
      const std::optional<Device> parsed = parse_device(device);
      if (!parsed) {
        scanner_.fail("a device's number");
      }
      meta.device = *parsed;
    } else {
      return meta;
    }
  }
}

Argument TermParser::argument() {
  const char next = scanner_.peek();
  if (next == '%') {
    return value_();
  }
  if (next == '"') {
    return scanner_.quoted();
  }
  if (next == '@') {
    scanner_.expect('@');
    return SubgraphRef{scanner_.index("the position of a nested graph")};
  }
  if (next == '[') {
    return list();
  }
  const std::size_t begin = scanner_.position();
  return scalar(scanner_.raw_item(), begin);
}

// An argument that is neither a value, a string nor a list.
Argument TermParser::scalar(std::string_view text, std::size_t begin) {
  if (text.empty()) {
    scanner_.fail_at(begin, "an argument");
  }
  if (text == "none") {
    return std::monostate();
  }
  if (text == "true" || text == "false") {
    return text == "true";
  }
  const char first = text.front();
  if ((first >= 'a' && first <= 'z')) {
    if (const auto dtype = parse_dtype(text)) {
      return *dtype;
    }
    if (const auto device = parse_device(text)) {
      return *device;
    }
    if (const auto format = parse_memory_format(text)) {
      return *format;
    }
    if (const auto layout = parse_layout(text)) {
      return *layout;
    }
  }
  if (RealExpr::is_text(text)) {
    return real_expression_of(text, begin);
  }
  if (const auto complex = parse_complex(text)) {
    return *complex;
  }
  const bool looks_float = text.find_first_of(".e") != std::string_view::npos || text == "inf" ||
                           text == "-inf" || text == "nan";
  if (looks_float) {
    if (const auto value = parse_double(text)) {
      return *value;
    }
  }
  return expression_of(text, begin);
}

Argument TermParser::list() {
  scanner_.expect('[');
  if (scanner_.accept(']')) {
    if (scanner_.accept_word("tensor")) {
      return std::vector<ValueId>();
    }
    if (scanner_.accept_word("float")) {
      return std::vector<double>();
    }
    if (scanner_.accept_word("bool")) {
      return std::vector<bool>();
    }
    if (scanner_.accept_word("string")) {
      return std::vector<std::string>();
    }
    return std::vector<Expr>();
  }
  const std::size_t begin = scanner_.position();
  std::vector<Argument> items;
  do {
    items.push_back(argument());
  } while (scanner_.accept(','));
  scanner_.expect(']');
  return join(std::move(items), begin);
}

// One list of what are all of one kind.
Argument TermParser::join(std::vector<Argument> items, std::size_t begin) {
  const auto collect = [&](auto sample) -> std::optional<Argument> {
    using T = decltype(sample);
    std::vector<T> found;
    for (const Argument& item : items) {
      if constexpr (std::is_same_v<T, ValueId>) {
        if (std::holds_alternative<std::monostate>(item)) {
          found.push_back(ValueId());
          continue;
        }
      }
      const T* value = std::get_if<T>(&item);
      if (value == nullptr) {
        return std::nullopt;
      }
      found.push_back(*value);
    }
    return Argument(std::move(found));
  };
  for (auto& found : {collect(ValueId()),
                      collect(Expr()),
                      collect(double()),
                      collect(bool()),
                      collect(std::string())}) {
    if (found) {
      return *found;
    }
  }
  scanner_.fail_at(begin, "a list whose items are all tensors, integers, floats, bools or strings");
}

}  // namespace kiln::ir
