#include "loop/typical_size.hpp"

#include <algorithm>

#include "kiln/base/error.hpp"

namespace kiln::codegen {

std::int64_t typical_size(const ir::Expr& expr) {
  constexpr std::int64_t kTypical = 64;
  constexpr std::int64_t kUnknown = 1 << 16;
  if (const auto constant = expr.constant()) {
    return *constant;
  }
  ir::Bindings sizes;
  for (const std::string& symbol : expr.symbols()) {
    sizes.emplace(symbol, kTypical);
  }
  try {
    return std::max<std::int64_t>(1, expr.evaluate(sizes));  // s0 - 64 is a size, too.
  } catch (const Error&) {  // A quotient by what is zero there, or more than an integer holds.
    return kUnknown;
  }
}

}  // namespace kiln::codegen
