#include "kiln/ir/guard.hpp"

#include <array>

#include "kiln/base/error.hpp"

namespace kiln::ir {
namespace {

struct Sign {
  std::string_view text;
  Relation relation;
  bool is_swapped = false;
};

// Longer ones first: "<=" begins with "<".
constexpr std::array kSigns = {Sign{"==", Relation::kEqual},
                               Sign{"!=", Relation::kNotEqual},
                               Sign{"<=", Relation::kLessEqual},
                               Sign{">=", Relation::kLessEqual, true},
                               Sign{"<", Relation::kLess},
                               Sign{">", Relation::kLess, true}};

}  // namespace

Guard Guard::parse(std::string_view text) {
  for (const Sign& sign : kSigns) {
    const std::size_t at = text.find(sign.text);
    if (at == std::string_view::npos) {
      continue;
    }
    Expr left = Expr::parse(text.substr(0, at));
    Expr right = Expr::parse(text.substr(at + sign.text.size()));
    if (sign.is_swapped) {
      std::swap(left, right);
    }
    return {std::move(left), sign.relation, std::move(right)};
  }
  throw Error(ErrorCode::kInvalidArgument,
              "'" + std::string(text) + "' is not a relation between two sizes");
}

std::string_view Guard::sign() const {
  switch (relation) {
    case Relation::kEqual: return "==";
    case Relation::kNotEqual: return "!=";
    case Relation::kLess: return "<";
    case Relation::kLessEqual: return "<=";
  }
  return "==";
}

std::string Guard::to_string() const {
  return left.to_string() + " " + std::string(sign()) + " " + right.to_string();
}

bool Guard::holds(const Bindings& values) const {
  const std::int64_t a = left.evaluate(values);
  const std::int64_t b = right.evaluate(values);
  switch (relation) {
    case Relation::kEqual: return a == b;
    case Relation::kNotEqual: return a != b;
    case Relation::kLess: return a < b;
    case Relation::kLessEqual: return a <= b;
  }
  return false;
}

}  // namespace kiln::ir
