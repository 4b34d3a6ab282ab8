#include "kiln/autograd_dispatch/structure.hpp"

#include <array>
#include <charconv>

#include "kiln/base/error.hpp"

namespace kiln::autograd_dispatch {
namespace {

constexpr std::string_view kSymbolicInteger = "integer";

Error unexpected(std::string_view wanted, std::string_view found) {
  return Error(ErrorCode::kInvalidArgument,
               "a value does not have the structure of its type: there should be " +
                   std::string(wanted) + ", and there is '" + std::string(found) + "'");
}

// The whole word, exact and whatever the locale.
template <class T, class... Format>
T parse(std::string_view word, std::string_view wanted, Format... format) {
  T value = {};
  const char* end = word.data() + word.size();
  if (std::from_chars(word.data(), end, value, format...).ptr != end || word.empty()) {
    throw unexpected(wanted, word);
  }
  return value;
}

}  // namespace

void StructureWriter::add_word(std::string_view word) {
  text_ += word;
  text_ += ' ';
}

void StructureWriter::add_integer(std::int64_t value) {
  add_word(std::to_string(value));
}

void StructureWriter::add_number(double value) {
  std::array<char, 64> digits{};
  const auto written =
      std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::hex);
  add_word({digits.data(), written.ptr});
}

void StructureWriter::add_string(std::string_view value) {
  add_integer(static_cast<std::int64_t>(value.size()));
  add_word(value);
}

std::string_view StructureReader::next() {
  const std::size_t end = rest_.find(' ');
  if (end == std::string_view::npos) {
    throw unexpected("more of it", "its end");
  }
  const std::string_view word = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
  return word;
}

void StructureWriter::add_symbolic_integer() {
  add_word(kSymbolicInteger);
}

void StructureReader::expect_word(std::string_view word) {
  if (const std::string_view found = next(); found != word) {
    throw unexpected("'" + std::string(word) + "'", found);
  }
}

std::int64_t StructureReader::read_integer() {
  const std::string_view word = next();
  if (word != kSymbolicInteger) {
    return parse<std::int64_t>(word, "an integer");
  }
  if (integers_.empty()) {
    throw unexpected("an integer", word);
  }
  const std::int64_t value = integers_.front();
  integers_ = integers_.subspan(1);
  return value;
}

double StructureReader::read_number() {
  return parse<double>(next(), "a number", std::chars_format::hex);
}

std::string StructureReader::read_string() {
  const auto size = static_cast<std::size_t>(read_integer());
  if (size >= rest_.size()) {
    throw unexpected("a string", rest_);
  }
  std::string value(rest_.substr(0, size));
  rest_.remove_prefix(size + 1);
  return value;
}

}  // namespace kiln::autograd_dispatch
