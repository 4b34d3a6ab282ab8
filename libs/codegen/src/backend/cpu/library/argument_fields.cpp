#include "backend/cpu/library/argument_fields.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/kernels/kernel_headers.hpp"
#include "kiln/base/error.hpp"

namespace kiln::codegen {
namespace {

using Fields = std::vector<LibraryField>;

constexpr std::string_view kBlanks = " \n";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string without_comments(std::string_view text) {
  std::string code;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    code += text.substr(0, std::min(text.find("//"), end));
    code += ' ';
    text.remove_prefix(end);
  }
  return code;
}

std::optional<std::string> find_struct(std::string_view name) {
  for (const KernelHeader& header : kernel_headers()) {
    for (const HeaderParagraph& paragraph : paragraphs_of(header)) {
      if (paragraph.name == name) {
        return without_comments(paragraph.text);
      }
    }
  }
  return std::nullopt;
}

// "long long a, b" as its type and its names.
std::pair<std::string_view, std::string_view> split_declaration(std::string_view text) {
  const std::size_t comma = std::min(text.find(','), text.size());
  const std::size_t blank = text.substr(0, comma).rfind(' ');
  ensure(blank != std::string_view::npos, "the fields of a kernel's arguments cannot be read");
  return {trimmed(text.substr(0, blank)), text.substr(blank)};
}

void append_fields(std::string_view params, const std::string& prefix, Fields& fields) {
  const std::optional<std::string> code = find_struct(params);
  ensure(code.has_value(), "a kernel's arguments have no struct");
  const std::size_t open = code->find('{');
  std::string_view body = std::string_view(*code).substr(open + 1, code->rfind('}') - open - 1);
  for (std::size_t end = body.find(';'); end != std::string_view::npos; end = body.find(';')) {
    auto [type, names] = split_declaration(trimmed(body.substr(0, end)));
    while (!names.empty()) {
      const std::size_t comma = std::min(names.find(','), names.size());
      const std::string name = prefix + std::string(trimmed(names.substr(0, comma)));
      if (type == "long long" || type == "double") {
        fields.push_back({name, type == "double"});
      } else {
        append_fields(type, name + ".", fields);
      }
      names.remove_prefix(std::min(comma + 1, names.size()));
    }
    body.remove_prefix(end + 1);
  }
}

}  // namespace

std::span<const LibraryField> argument_fields(std::string_view params) {
  static const std::map<std::string_view, Fields> all = [] {
    std::map<std::string_view, Fields> result;
    for (const std::string_view each :
         {"GemmParams", "ConvolutionParams", "WinogradParams", "AttentionParams"}) {
      append_fields(each, "", result[each]);
    }
    return result;
  }();
  return all.at(params);
}

}  // namespace kiln::codegen
