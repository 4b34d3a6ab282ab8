// The values that symbols have in a call.

#pragma once

#include <cstdint>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/ir/expr.hpp"
#include "kiln/ir/symbol_sources.hpp"

namespace kiln::autograd_dispatch {

/// Reads symbols from the sizes of a graph's inputs, which have them.
[[nodiscard]] ir::Bindings read_symbols(const std::vector<ir::SymbolSource>& sources,
                                        const Tensors& inputs);

/// What `expressions` are under `symbols`.
[[nodiscard]] std::vector<std::int64_t> evaluate_all(const std::vector<ir::Expr>& expressions,
                                                     const ir::Bindings& symbols);

}  // namespace kiln::autograd_dispatch
