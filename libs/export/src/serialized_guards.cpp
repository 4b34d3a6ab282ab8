#include "serialized_guards.hpp"

#include <algorithm>
#include <regex>

#include "kiln/base/error.hpp"

namespace kiln::exporter {
namespace {

// Where the argument 'd' is {'k': (a, b)}, L['d']['k'][1] is the input d_k_1.
std::string input_name(const std::string& path) {
  std::string name;
  for (const char c : path) {
    if (c == ']') {
      name += '_';
    } else if (c != '[' && c != '\'' && c != '"') {
      name += c;
    }
  }
  name.pop_back();
  return name;
}

struct Translated {
  std::string text;
  std::vector<std::string> symbols;
  bool is_complete = true;
};

// With sizes as expressions of their symbols.
Translated translate(const std::string& guard, const SizeOf& size_of) {
  static const std::regex kSize(
      R"(L((?:\[(?:'[^']*'|"[^"]*"|\d+)\])+)(?:\.size\(\)\[(\d+)\]|(?![\w.\[])))");
  Translated result;
  auto rest = guard.cbegin();
  for (std::sregex_iterator match(guard.begin(), guard.end(), kSize), end; match != end; ++match) {
    result.text.append(rest, (*match)[0].first);
    rest = (*match)[0].second;
    const std::optional<ir::Expr> size =
        size_of(input_name((*match)[1].str()),
                (*match)[2].matched ? std::optional(std::stoul((*match)[2].str())) : std::nullopt);
    if (!size) {
      result.is_complete = false;
      result.text += "?";
      continue;
    }
    result.text += "(" + size->to_string() + ")";
    for (std::string& symbol : size->symbols()) {
      result.symbols.push_back(std::move(symbol));
    }
  }
  result.text.append(rest, guard.cend());
  std::ranges::sort(result.symbols);
  const auto [first, last] = std::ranges::unique(result.symbols);
  result.symbols.erase(first, last);
  // What is left of its inputs is something else than a size.
  result.is_complete = result.is_complete && result.text.find("L[") == std::string::npos;
  return result;
}

std::string with_names_of_expressions(std::string text) {
  for (const auto& [python, own] : {std::pair("max(", "Max("), std::pair("min(", "Min(")}) {
    for (std::size_t at = 0; (at = text.find(python, at)) != std::string::npos; ++at) {
      text.replace(at, 4, own);
    }
  }
  return text;
}

// "a and b" is two guards; what has an "or" is none that can be read.
std::vector<std::string> conjuncts_of(const std::string& text) {
  constexpr std::string_view kAnd = " and ";
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t at = 0; (at = text.find(kAnd, begin)) != std::string::npos;) {
    parts.push_back(text.substr(begin, at - begin));
    begin = at + kAnd.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// PyTorch traces with sizes that are neither 0 nor 1, and says so where a range begins at 1. A
// branch of the program's own at 2 begins the range there.
bool is_of_the_tracer(const ir::Guard& guard) {
  const std::vector<std::string> symbols = guard.right.symbols();
  return guard.relation == ir::Relation::kLessEqual && guard.left == ir::Expr(2) &&
         symbols.size() == 1 && guard.right == ir::Expr::symbol(symbols[0]);
}

}  // namespace

ArchivedGuards read_guards(const Json& guards_code, const SizeOf& size_of) {
  ArchivedGuards result;
  for (const Json& entry : guards_code) {
    const auto text = entry.get<std::string>();
    Translated translated = translate(text, size_of);
    try {
      for (const std::string& part : conjuncts_of(with_names_of_expressions(translated.text))) {
        ir::Guard guard = ir::Guard::parse(part);
        if (!is_of_the_tracer(guard)) {
          result.guards.push_back(std::move(guard));
        }
      }
    } catch (const Error&) {
      result.unread.push_back({text, std::move(translated.symbols), translated.is_complete});
    }
  }
  return result;
}

}  // namespace kiln::exporter
