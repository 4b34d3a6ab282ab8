#include "scanner.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "kiln/base/error.hpp"

namespace kiln::ir {
namespace {

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '$';
}

int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

void Scanner::fail(std::string_view expected) const {
  fail_at(position_, expected);
}

void Scanner::fail_at(std::size_t position, std::string_view expected) const {
  const std::string_view before = text_.substr(0, position);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? position + 1 : position - newline;
  std::string found = "the end of the text";
  if (position < text_.size()) {
    std::size_t end = position;
    while (end < text_.size() && end < position + 20 && is_word_character(text_[end])) {
      ++end;
    }
    found =
        text_[position] == '\n'
            ? "the end of the line"
            : "'" + std::string(text_.substr(position, std::max<std::size_t>(end - position, 1))) +
                  "'";
  }
  throw Error(ErrorCode::kInvalidArgument,
              "line " + std::to_string(line) + ", column " + std::to_string(column) +
                  ": expected " + std::string(expected) + ", found " + found);
}

char Scanner::peek() {
  while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t')) {
    if (at_comment()) {
      break;
    }
    ++position_;
  }
  return position_ < text_.size() ? text_[position_] : '\0';
}

bool Scanner::accept(char token) {
  if (peek() != token || position_ >= text_.size()) {
    return false;
  }
  ++position_;
  return true;
}

void Scanner::expect(char token) {
  if (!accept(token)) {
    fail(std::string("'") + token + "'");
  }
}

std::string_view Scanner::peek_word() {
  (void)peek();
  std::size_t end = position_;
  while (end < text_.size() && is_word_character(text_[end])) {
    ++end;
  }
  return text_.substr(position_, end - position_);
}

std::string_view Scanner::word() {
  const std::string_view result = peek_word();
  position_ += result.size();
  return result;
}

bool Scanner::accept_word(std::string_view word) {
  if (peek_word() != word) {
    return false;
  }
  position_ += word.size();
  return true;
}

std::string Scanner::quoted() {
  expect('"');
  std::string result;
  while (position_ < text_.size() && text_[position_] != '\n') {
    const char c = text_[position_++];
    if (c == '"') {
      return result;
    }
    if (c != '\\') {
      result += c;
      continue;
    }
    const char escape = position_ < text_.size() ? text_[position_] : '\0';
    if (escape == 'n') {
      result += '\n';
    } else if (escape == '"' || escape == '\\') {
      result += escape;
    } else if (escape == 'x' && position_ + 2 < text_.size() &&
               hex_digit(text_[position_ + 1]) >= 0 && hex_digit(text_[position_ + 2]) >= 0) {
      result +=
          static_cast<char>(hex_digit(text_[position_ + 1]) * 16 + hex_digit(text_[position_ + 2]));
      position_ += 2;
    } else {
      fail("'n', 'xNN', '\"' or '\\' after a backslash");
    }
    ++position_;
  }
  fail("a closing '\"'");
}

std::int64_t Scanner::integer(std::string_view expected) {
  (void)peek();
  std::int64_t value = 0;
  const char* begin = text_.data() + position_;
  const auto [stop, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error != std::errc()) {
    fail(expected);
  }
  position_ += static_cast<std::size_t>(stop - begin);
  return value;
}

std::uint32_t Scanner::index(std::string_view expected) {
  (void)peek();
  const std::size_t begin = position_;
  const std::int64_t value = integer(expected);
  if (value < 0 || value >= 0xffffffff) {
    fail_at(begin, expected);
  }
  return static_cast<std::uint32_t>(value);
}

std::string_view Scanner::raw_item() {
  (void)peek();
  const std::size_t begin = position_;
  int depth = 0;
  while (position_ < text_.size() && text_[position_] != '\n') {
    const char c = text_[position_];
    if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      if (depth-- == 0) {
        break;
      }
    } else if (c == ',' && depth == 0) {
      break;
    }
    ++position_;
  }
  std::size_t end = position_;
  while (end > begin && (text_[end - 1] == ' ' || text_[end - 1] == '\t')) {
    --end;
  }
  return text_.substr(begin, end - begin);
}

bool Scanner::at_comment() const {
  return text_.substr(position_, 4) == "  # " || text_.substr(position_, 4) == "  #\n";
}

void Scanner::end_of_statement() {
  const char next = peek();
  if (next != '\0' && next != '\n' && next != '\r' && !at_comment()) {
    fail("the end of the line");
  }
  skip_empty_lines();
}

void Scanner::skip_empty_lines() {
  // Called where nothing but a comment or the end may be left on the line.
  while (position_ < text_.size()) {
    const std::size_t start = text_.find_first_not_of(" \t\r", position_);
    if (start == std::string_view::npos) {
      position_ = text_.size();
    } else if (text_[start] == '#') {
      position_ = std::min(text_.find('\n', start), text_.size());
    } else if (text_[start] == '\n') {
      position_ = start + 1;
    } else {
      return;
    }
  }
}

}  // namespace kiln::ir
