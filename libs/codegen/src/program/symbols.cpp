#include "program/symbols.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "kiln/base/error.hpp"

namespace kiln::codegen {
namespace {

using Symbols = std::set<std::string, std::less<>>;

void collect(const ir::Expr& expr, Symbols* symbols) {
  for (std::string& name : expr.symbols()) {
    symbols->insert(std::move(name));
  }
}

void collect(const ir::Value& value, Symbols* symbols) {
  if (!value.is_tensor()) {
    collect(std::get<ir::SymIntMeta>(value.meta).expr, symbols);
    return;
  }
  const ir::TensorMeta& meta = value.tensor();
  for (const auto* list : {&meta.sizes, &meta.strides}) {
    for (const ir::Expr& expr : *list) {
      collect(expr, symbols);
    }
  }
  collect(meta.offset, symbols);
}

// Solves `expr` = scale * symbol + shift, if it is of that form.
std::optional<SymbolSource> solve(const ir::Expr& expr) {
  const std::vector<std::string> names = expr.symbols();
  if (names.size() != 1) {
    return std::nullopt;
  }
  const auto at = [&](std::int64_t value) { return expr.evaluate({{names[0], value}}); };
  SymbolSource source{.symbol = names[0]};
  // Any two points would do for a line; whether it is one, the comparison below decides.
  source.shift = 2 * at(1) - at(2);
  source.scale = at(2) - at(1);
  const ir::Expr line =
      ir::Expr(source.scale) * ir::Expr::symbol(names[0]) + ir::Expr(source.shift);
  return source.scale != 0 && line == expr ? std::optional(source) : std::nullopt;
}

}  // namespace

std::vector<SymbolSource> find_symbol_sources(const ir::Graph& graph) {
  Symbols symbols;
  for (const ir::Value& value : graph.values()) {
    collect(value, &symbols);
  }

  std::map<std::string, SymbolSource, std::less<>> found;
  const auto offer = [&](const ir::Expr& expr, std::size_t input, std::int32_t dimension) {
    if (std::optional<SymbolSource> source = expr.is_constant() ? std::nullopt : solve(expr)) {
      source->input = static_cast<std::uint32_t>(input);
      source->dimension = dimension;
      const auto known = found.find(source->symbol);
      if (known == found.end() || known->second.scale != 1) {
        found.insert_or_assign(source->symbol, *source);
      }
    }
  };
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::Value& value = graph.value(graph.inputs()[i].value);
    if (!value.is_tensor()) {
      offer(std::get<ir::SymIntMeta>(value.meta).expr, i, -1);
      continue;
    }
    const std::vector<ir::Expr>& sizes = value.tensor().sizes;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      offer(sizes[d], i, static_cast<std::int32_t>(d));
    }
  }

  std::vector<SymbolSource> sources;
  for (const std::string& symbol : symbols) {
    const auto source = found.find(symbol);
    if (source == found.end()) {
      throw Error(ErrorCode::kUnsupported, "no input of the graph determines the symbol " + symbol);
    }
    sources.push_back(source->second);
  }
  return sources;
}

}  // namespace kiln::codegen
