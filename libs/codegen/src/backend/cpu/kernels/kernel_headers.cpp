#include "backend/cpu/kernels/kernel_headers.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "kiln/base/error.hpp"

namespace kiln::codegen {
namespace {

using Words = std::set<std::string_view>;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// The word that begins at `at`, or the empty one.
std::string_view word_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_word(text[end])) {
    ++end;
  }
  return text.substr(at, end - at);
}

Words words_of(std::string_view text) {
  Words words;
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    const std::string_view word = word_at(text, at);
    if (!word.empty()) {
      words.insert(word);
    }
    at += std::max<std::size_t>(word.size(), 1);
  }
  return words;
}

// Behind the closing parenthesis or bracket of what opens at `at`.
std::size_t behind_closing(std::string_view text, std::size_t at, char open, char close) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    depth += text[at] == open ? 1 : text[at] == close ? -1 : 0;
    if (depth == 0) {
      return at + 1;
    }
  }
  return text.size();
}

// What a declaration declares: the last word before its parameters, its body, its value or its end.
std::string_view declared_name(std::string_view text) {
  constexpr std::string_view kEndsOfName = "({=;[:";
  std::string_view last;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view word = word_at(text, at);
    if (word == "__attribute__" || word == "alignas") {
      at = behind_closing(text, text.find('(', at), '(', ')');
    } else if (word == "template" || (text[at] == '<' && !last.empty())) {
      at = behind_closing(text, text.find('<', at), '<', '>');
    } else if (!word.empty()) {
      last = word;
      at += word.size();
    } else if (text.substr(at, 2) == "::") {
      at += 2;
    } else if (text[at] == '"') {
      at = text.find('"', at + 1) + 1;  // extern "C"
    } else if (kEndsOfName.find(text[at]) != std::string_view::npos) {
      return last;
    } else {
      ++at;
    }
  }
  return last;
}

// The name that a paragraph defines; empty if it is a comment.
std::string_view defined_name(std::string_view paragraph) {
  constexpr std::string_view kDefine = "#define ";
  while (!paragraph.empty()) {
    const std::size_t end = std::min(paragraph.find('\n'), paragraph.size() - 1);
    const std::string_view line = paragraph.substr(0, end + 1);
    if (line.starts_with(kDefine)) {
      return word_at(line, kDefine.size());
    }
    if (line.starts_with("KILN_")) {  // A macro that defines its first argument.
      return word_at(line, line.find('(') + 1);
    }
    if (!line.starts_with("#") && !line.starts_with("//")) {
      return declared_name(paragraph);
    }
    paragraph.remove_prefix(line.size());
  }
  return {};
}

bool is_for_editors(std::string_view paragraph) {
  return std::ranges::any_of(std::initializer_list<std::string_view>{"#pragma once",
                                                                     "#include",
                                                                     "#ifndef KILN_",
                                                                     "namespace ",
                                                                     "}  // namespace",
                                                                     "using kiln::"},
                             [&](std::string_view start) { return paragraph.starts_with(start); });
}

std::vector<std::string_view> split_at_blank_lines(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find("\n\n");
    parts.push_back(text.substr(0, end == std::string_view::npos ? end : end + 1));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
  }
  return parts;
}

struct Definition {
  HeaderParagraph paragraph;
  Words uses;
  bool is_of_doubles = false;
};

// The definitions of all headers, in an order that compiles.
const std::vector<Definition>& definitions() {
  static const std::vector<Definition> all = [] {
    std::vector<Definition> result;
    for (const KernelHeader& header : kernel_headers()) {
      for (const HeaderParagraph& paragraph : paragraphs_of(header)) {
        result.push_back({paragraph, words_of(paragraph.text), header.name.ends_with("_f64")});
      }
    }
    return result;
  }();
  return all;
}

// Vector types by their elements: what loads an element is defined with the vector.
constexpr std::pair<std::string_view, std::string_view> kVectors[] = {{"float", "F32"},
                                                                      {"double", "F64"},
                                                                      {"Index", "I64"},
                                                                      {"long", "I64"},
                                                                      {"int", "I32"},
                                                                      {"short", "I16"},
                                                                      {"signed", "I8"},
                                                                      {"unsigned", "U8"}};

// Which definitions `kernel` needs, directly or not.
std::vector<bool> needed_definitions(std::string_view kernel) {
  const std::vector<Definition>& all = definitions();
  Words used = words_of(kernel);
  for (const auto& [element, vector] : kVectors) {
    if (used.contains(element)) {
      used.insert(vector);
    }
  }
  used.insert({"Index", "kLanes"});
  std::vector<bool> needed(all.size());
  for (bool found = true; found;) {
    found = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      // Functions of doubles have the names of those of floats.
      if (!needed[i] && used.contains(all[i].paragraph.name) &&
          (!all[i].is_of_doubles || used.contains("F64"))) {
        needed[i] = found = true;
        used.insert(all[i].uses.begin(), all[i].uses.end());
      }
    }
  }
  return needed;
}

}  // namespace

std::vector<HeaderParagraph> paragraphs_of(const KernelHeader& header) {
  std::vector<HeaderParagraph> result;
  for (const std::string_view text : split_at_blank_lines(header.text)) {
    const std::string_view name = is_for_editors(text) ? std::string_view() : defined_name(text);
    if (!name.empty()) {
      result.push_back({name, text});
    }
  }
  return result;
}

std::string with_kernel_headers(std::string_view kernel, int lanes) {
  const std::vector<bool> needed = needed_definitions(kernel);
  std::string text = "#undef KILN_LANES\n#define KILN_LANES " + std::to_string(lanes) + "\n";
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (needed[i]) {
      text += definitions()[i].paragraph.text;
    }
  }
  return text += kernel;
}

std::string hand_written_kernel(std::string_view name,
                                int lanes,
                                std::span<const KernelConstant> constants) {
  const auto found = std::ranges::find(hand_written_kernels(), name, &KernelHeader::name);
  if (found == hand_written_kernels().end()) {
    throw Error(ErrorCode::kInternal, "there is no kernel \"" + std::string(name) + "\"");
  }
  std::string macros, kernel;
  for (const auto& [macro, value] : constants) {
    macros += "#define " + std::string(macro) + " " + std::to_string(value) + "\n";
  }
  for (const HeaderParagraph& paragraph : paragraphs_of(*found)) {
    kernel += paragraph.text;
  }
  // Vectors wider than a register are passed between inlined functions only: their ABI does not
  // matter.
  return "// " + std::string(name) + "\n#pragma GCC diagnostic ignored \"-Wpsabi\"\n" + macros +
         "namespace KILN_KERNEL_parts {\n" + with_kernel_headers(kernel, lanes) +
         "}  // namespace KILN_KERNEL_parts\n";
}

}  // namespace kiln::codegen
