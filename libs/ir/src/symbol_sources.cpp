#include "kiln/ir/symbol_sources.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "kiln/base/error.hpp"

namespace kiln::ir {
namespace {

using Symbols = std::set<std::string, std::less<>>;

void collect(const Expr& expr, Symbols* symbols) {
  for (std::string& name : expr.symbols()) {
    symbols->insert(std::move(name));
  }
}

void collect(const Value& value, Symbols* symbols) {
  if (!value.is_tensor()) {
    collect(std::get<SymIntMeta>(value.meta).expr, symbols);
    return;
  }
  const TensorMeta& meta = value.tensor();
  for (const auto* list : {&meta.sizes, &meta.strides}) {
    for (const Expr& expr : *list) {
      collect(expr, symbols);
    }
  }
  collect(meta.offset, symbols);
}

}  // namespace

std::optional<LinearForm> linear_form(const Expr& expr) {
  const std::vector<std::string> names = expr.symbols();
  if (names.size() != 1) {
    return std::nullopt;
  }
  const auto at = [&](std::int64_t value) { return expr.evaluate({{names[0], value}}); };
  // Any two points would do for a line; whether it is one, the comparison below decides.
  const LinearForm form{.symbol = names[0], .scale = at(2) - at(1), .shift = 2 * at(1) - at(2)};
  const Expr line = Expr(form.scale) * Expr::symbol(form.symbol) + Expr(form.shift);
  return form.scale != 0 && line == expr ? std::optional(form) : std::nullopt;
}

std::vector<SymbolSource> find_symbol_sources(const Graph& graph) {
  Symbols symbols;
  for (const Value& value : graph.values()) {
    collect(value, &symbols);
  }

  std::map<std::string, SymbolSource, std::less<>> found;
  const auto offer = [&](const Expr& expr, std::size_t input, std::int32_t dimension) {
    if (const std::optional<LinearForm> form = linear_form(expr)) {
      const auto known = found.find(form->symbol);
      if (known == found.end() || known->second.scale != 1) {
        found.insert_or_assign(form->symbol,
                               SymbolSource{.symbol = form->symbol,
                                            .input = static_cast<std::uint32_t>(input),
                                            .dimension = dimension,
                                            .scale = form->scale,
                                            .shift = form->shift});
      }
    }
  };
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i].value);
    if (!value.is_tensor()) {
      offer(std::get<SymIntMeta>(value.meta).expr, i, -1);
      continue;
    }
    const std::vector<Expr>& sizes = value.tensor().sizes;
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

}  // namespace kiln::ir
