// Writing C++ source: lines made from templates, and blocks that close themselves.

#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace kiln::codegen {

/// The text of what stands in the place of a `$`.
inline std::string_view code_argument(std::string_view text) {
  return text;
}
template <std::integral Integer>
  requires(!std::same_as<Integer, bool> && !std::same_as<Integer, char>)
std::string code_argument(Integer number) {
  return std::to_string(number);
}

/// A line of source in which each `$` stands for an argument; their number is checked when Kiln is
/// compiled. C++ has no use for that sign, so that nothing has to be escaped.
template <class... Args>
class CodeTemplate {
 public:
  template <std::size_t size>
  consteval CodeTemplate(const char (&text)[size])  // NOLINT(google-explicit-constructor)
      : text_(text, size - 1) {
    std::size_t places = 0;
    for (const char c : text_) {
      places += c == '$' ? 1 : 0;
    }
    if (places != sizeof...(Args)) {
      throw "a template has as many '$' as there are arguments";
    }
  }

  [[nodiscard]] std::string fill(const Args&... args) const {
    std::string result;
    std::string_view rest = text_;
    const auto append = [&](std::string_view argument) {
      const std::size_t place = rest.find('$');
      result.append(rest.substr(0, place)).append(argument);
      rest.remove_prefix(place + 1);
    };
    (append(code_argument(args)), ...);
    return result.append(rest);
  }

 private:
  std::string_view text_;
};

/// `text` with its arguments: code("$ + $", "i", 4) is "i + 4".
template <class... Args>
[[nodiscard]] std::string code(CodeTemplate<std::type_identity_t<Args>...> text,
                               const Args&... args) {
  return text.fill(args...);
}

/// Source text that grows at its end, indented by two blanks a level.
class CodeWriter {
 public:
  /// A block of the text; it is closed where the scope ends.
  class Scope {
   public:
    Scope(CodeWriter& writer, std::string_view closing) : writer_(writer), closing_(closing) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { writer_.close(closing_); }

   private:
    CodeWriter& writer_;
    std::string_view closing_;
  };

  /// Adds a line; an empty one stays empty.
  CodeWriter& line(std::string_view text = {});
  template <class First, class... Rest>
  CodeWriter& line(CodeTemplate<std::type_identity_t<First>, std::type_identity_t<Rest>...> text,
                   const First& first,
                   const Rest&... rest) {
    return line(text.fill(first, rest...));
  }
  /// Adds a line at the margin, where preprocessor lines stand.
  CodeWriter& directive(std::string_view text);
  /// Adds text as it is, lines and all.
  CodeWriter& verbatim(std::string_view text);

  /// A block in braces, behind `head` if there is one.
  [[nodiscard]] Scope scope(std::string_view head = {}) {
    open(head);
    return {*this, "}"};
  }
  template <class First, class... Rest>
  [[nodiscard]] Scope scope(
      CodeTemplate<std::type_identity_t<First>, std::type_identity_t<Rest>...> head,
      const First& first,
      const Rest&... rest) {
    return scope(head.fill(first, rest...));
  }
  /// The same of a type or of an initializer, which end with a semicolon.
  [[nodiscard]] Scope declaration(std::string_view head) {
    open(head);
    return {*this, "};"};
  }
  template <class First, class... Rest>
  [[nodiscard]] Scope declaration(
      CodeTemplate<std::type_identity_t<First>, std::type_identity_t<Rest>...> head,
      const First& first,
      const Rest&... rest) {
    return declaration(head.fill(first, rest...));
  }

  /// A block that another function closes.
  CodeWriter& open(std::string_view head = {});
  template <class First, class... Rest>
  CodeWriter& open(CodeTemplate<std::type_identity_t<First>, std::type_identity_t<Rest>...> head,
                   const First& first,
                   const Rest&... rest) {
    return open(head.fill(first, rest...));
  }
  CodeWriter& close(std::string_view closing = "}");

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  int level_ = 0;
};

}  // namespace kiln::codegen
