// Reads the text form character by character, and says where it stopped.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln::ir {

/// A position in a text. Blanks are spaces and tabs; newlines end statements.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  /// Throws `kInvalidArgument`: "line 3, column 14: expected `expected`, found ','".
  [[noreturn]] void fail(std::string_view expected) const;
  [[noreturn]] void fail_at(std::size_t position, std::string_view expected) const;

  [[nodiscard]] std::size_t position() const { return position_; }
  /// Where what comes after blanks begins.
  [[nodiscard]] std::size_t start() {
    (void)peek();
    return position_;
  }

  /// The next character after blanks; '\0' at the end of the text.
  [[nodiscard]] char peek();
  /// Consumes `token` if it comes next.
  bool accept(char token);
  void expect(char token);
  /// Consumes `word` if it comes next as a whole word.
  bool accept_word(std::string_view word);
  /// Letters, digits, '_', '.', '$'; empty if none come next.
  [[nodiscard]] std::string_view word();
  [[nodiscard]] std::string_view peek_word();
  /// A string in quotes, escapes resolved.
  [[nodiscard]] std::string quoted();
  [[nodiscard]] std::int64_t integer(std::string_view expected);
  /// Like `integer`, from 0 to 2^32 - 2.
  [[nodiscard]] std::uint32_t index(std::string_view expected);
  /// Everything up to a ',', or a closing bracket that was not opened here, without blanks around
  /// it.
  [[nodiscard]] std::string_view raw_item();
  /// Consumes the end of the line and lines without content.
  void end_of_statement();
  void skip_empty_lines();

 private:
  [[nodiscard]] bool at_comment() const;

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace kiln::ir
