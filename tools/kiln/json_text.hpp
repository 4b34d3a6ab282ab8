// JSON as text.

#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kiln::tool {

/// `value`, with two spaces for each level, or on one line with `indent` -1. Names of files and
/// messages of others need not be UTF-8: what is not becomes U+FFFD.
template <class Json>
[[nodiscard]] std::string json_text(const Json& value, int indent = 2) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kiln::tool
