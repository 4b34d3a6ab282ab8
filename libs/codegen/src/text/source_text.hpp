// Pieces of C++ source: literals, comments.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln::codegen {

/// `text` with every `from` in it replaced by `to`.
[[nodiscard]] std::string replace_all(std::string text, std::string_view from, std::string_view to);

/// `text` as a C string literal, quotes included.
[[nodiscard]] std::string string_literal(std::string_view text);

/// `text` as a JSON string, quotes included.
[[nodiscard]] std::string json_string(std::string_view text);

/// `text` as one line that cannot end or continue a comment; the end of a long one is left out.
[[nodiscard]] std::string comment_line(std::string_view text);

/// A literal of the C++ integer type `type`, or of bool: "5LL", "(int)5", "true".
[[nodiscard]] std::string integer_literal(std::int64_t value, std::string_view type);

/// A literal that reads back as exactly `value`, NaN and the infinities included.
[[nodiscard]] std::string double_literal(double value);
/// The same of a float.
[[nodiscard]] std::string float_literal(float value);

}  // namespace kiln::codegen
