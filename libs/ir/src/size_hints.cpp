#include "kiln/ir/size_hints.hpp"

#include <algorithm>

#include "kiln/base/error.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::ir {

SizeHints::SizeHints(const Graph& graph) : ranges_(graph.symbols()), examples_(graph.hints()) {}

std::int64_t SizeHints::of_symbol(const std::string& name, std::int64_t least) const {
  const auto example = examples_.find(name);
  const std::int64_t size = example == examples_.end() ? kUsual : std::max(example->second, least);
  const auto range = ranges_.find(name);
  // An empty range, which no call can meet, has no size in it.
  return range == ranges_.end() ? size
                                : std::min(std::max(size, range->second.low), range->second.high);
}

std::int64_t SizeHints::value(const Expr& expr, std::int64_t least) const {
  constexpr std::int64_t kUnknown = 1 << 16;
  if (const auto constant = expr.constant()) {
    return *constant;
  }
  Bindings sizes;
  for (const std::string& symbol : expr.symbols()) {
    sizes.emplace(symbol, of_symbol(symbol, least));
  }
  try {
    return std::max<std::int64_t>(1, expr.evaluate(sizes));  // s0 - 64 is a size, too.
  } catch (const Error&) {  // A quotient by what is zero there, or more than an integer holds.
    return kUnknown;
  }
}

}  // namespace kiln::ir
