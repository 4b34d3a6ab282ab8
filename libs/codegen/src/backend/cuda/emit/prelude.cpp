#include "backend/cuda/emit/prelude.hpp"

#include <algorithm>
#include <initializer_list>

namespace kiln::codegen::cuda {
namespace {

bool is_for_editors(std::string_view line) {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{
          "#pragma once", "#include ", "namespace ", "}  // namespace"},
      [&](std::string_view start) { return line.starts_with(start); });
}

}  // namespace

const std::string& prelude() {
  static const std::string text = [] {
    std::string result;
    for (std::string_view rest : kernel_headers()) {
      while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n') + 1);
        if (line != "\n" && !is_for_editors(line)) {
          result += line;
        }
        rest.remove_prefix(line.size());
      }
    }
    return result;
  }();
  return text;
}

}  // namespace kiln::codegen::cuda
