#include "read_symbols.hpp"

namespace kiln::autograd_dispatch {

ir::Bindings read_symbols(const std::vector<ir::SymbolSource>& sources, const Tensors& inputs) {
  ir::Bindings symbols;
  for (const ir::SymbolSource& source : sources) {
    symbols[source.symbol] =
        (inputs[source.input].size(source.dimension) - source.shift) / source.scale;
  }
  return symbols;
}

std::vector<std::int64_t> evaluate_all(const std::vector<ir::Expr>& expressions,
                                       const ir::Bindings& symbols) {
  std::vector<std::int64_t> values;
  values.reserve(expressions.size());
  for (const ir::Expr& expression : expressions) {
    values.push_back(expression.is_constant() ? *expression.constant()
                                              : expression.evaluate(symbols));
  }
  return values;
}

}  // namespace kiln::autograd_dispatch
