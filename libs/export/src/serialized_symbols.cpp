#include "serialized_symbols.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/base/log.hpp"

namespace kiln::exporter {
namespace {

constexpr int kDeepest = 200;

class SreprParser {
 public:
  explicit SreprParser(std::string_view text) : text_(text) {}

  ir::Expr parse() {
    ir::Expr result = expression(0);
    if (position_ != text_.size()) {
      fail();
    }
    return result;
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorCode::kCorrupt, "cannot read the symbolic size " + std::string(text_));
  }

  void skip_spaces() {
    while (position_ < text_.size() && text_[position_] == ' ') {
      ++position_;
    }
  }

  bool take(char wanted) {
    skip_spaces();
    const bool found = position_ < text_.size() && text_[position_] == wanted;
    position_ += static_cast<std::size_t>(found);
    return found;
  }

  std::string word() {
    skip_spaces();
    const std::size_t begin = position_;
    while (position_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[position_])) != 0 ||
            text_[position_] == '_' || text_[position_] == '-')) {
      ++position_;
    }
    return std::string(text_.substr(begin, position_ - begin));
  }

  ir::Expr integer() {
    const std::string digits = word();
    try {
      std::size_t used = 0;
      const std::int64_t value = std::stoll(digits, &used);
      if (used == digits.size()) {
        return value;
      }
    } catch (const std::logic_error&) {
    }
    fail();
  }

  // 's0', positive=True, integer=True
  ir::Expr symbol() {
    if (!take('\'')) {
      fail();
    }
    const std::string name = word();
    if (name.empty() || !take('\'')) {
      fail();
    }
    while (take(',')) {
      word();
      if (!take('=')) {
        fail();
      }
      word();
    }
    return ir::Expr::symbol(name);
  }

  ir::Expr expression(int depth) {
    const std::string head = word();
    if (depth > kDeepest || head.empty() || !take('(')) {
      fail();
    }
    ir::Expr result = head == "Integer"  ? integer()
                      : head == "Symbol" ? symbol()
                                         : call(head, depth);
    if (!take(')')) {
      fail();
    }
    return result;
  }

  ir::Expr call(const std::string& head, int depth) {
    std::vector<ir::Expr> operands;
    do {
      operands.push_back(expression(depth + 1));
    } while (take(','));
    if (operands.size() == 2) {
      if (head == "FloorDiv" || head == "CleanDiv") {
        return floor_div(operands[0], operands[1]);
      }
      if (head == "CeilDiv") {
        return ceil_div(operands[0], operands[1]);
      }
      if (head == "Mod" || head == "PythonMod") {
        return mod(operands[0], operands[1]);
      }
      if (head == "Pow" && operands[1] == ir::Expr(2)) {
        return operands[0] * operands[0];
      }
    }
    ir::Expr result = operands[0];
    for (std::size_t i = 1; i < operands.size(); ++i) {
      if (head == "Add") {
        result = result + operands[i];
      } else if (head == "Mul") {
        result = result * operands[i];
      } else if (head == "Max") {
        result = max(result, operands[i]);
      } else if (head == "Min") {
        result = min(result, operands[i]);
      } else {
        throw Error(ErrorCode::kUnsupported,
                    "the symbolic size uses " + head + ": " + std::string(text_));
      }
    }
    return result;
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace

ir::Expr parse_srepr(const std::string& text) {
  return SreprParser(text).parse();
}

ir::Ranges read_ranges(const Json& range_constraints) {
  ir::Ranges result;
  for (const auto& [name, range] : range_constraints.items()) {
    ir::Range& entry = result[name];
    if (!range.at("min_val").is_null()) {
      entry.low = range.at("min_val").get<std::int64_t>();
    }
    if (!range.at("max_val").is_null()) {
      entry.high = range.at("max_val").get<std::int64_t>();
    }
  }
  return result;
}

std::vector<ir::Expr> read_expressions(const Json& graph) {
  std::vector<ir::Expr> result;
  std::set<std::string> seen;
  const auto note = [&](const Json& serialized) {
    const auto [tag, value] = read_union(serialized);
    if (tag != "as_expr") {
      return;
    }
    const auto text = value.at("expr_str").get<std::string>();
    if (!seen.insert(text).second) {
      return;
    }
    try {
      result.push_back(parse_srepr(text));
    } catch (const Error& error) {
      KILN_LOG(kDebug, "export", "not used to name sizes: " << error.what());
    }
  };
  for (const auto& [name, meta] : graph.at("tensor_values").items()) {
    std::ranges::for_each(meta.at("sizes"), note);
  }
  for (const auto& [name, integer] : graph.at("sym_int_values").items()) {
    note(integer);
  }
  return result;
}

std::vector<ir::Expr> symbolic_sizes(const Json& sizes, const ir::Ranges& ranges) {
  std::vector<ir::Expr> result;
  bool is_symbolic = false;
  for (const Json& size : sizes) {
    const auto [tag, value] = read_union(size);
    if (tag == "as_int") {
      result.emplace_back(value.get<std::int64_t>());
      continue;
    }
    result.push_back(parse_srepr(value.at("expr_str").get<std::string>()));
    is_symbolic = true;
    for (const std::string& name : result.back().symbols()) {
      if (!ranges.contains(name)) {
        throw Error(ErrorCode::kCorrupt, "the symbol " + name + " of an input's size has no range");
      }
    }
  }
  return is_symbolic ? result : std::vector<ir::Expr>();
}

}  // namespace kiln::exporter
