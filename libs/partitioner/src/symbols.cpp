#include "symbols.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <variant>

#include "kiln/base/error.hpp"

namespace kiln::partitioner {
namespace {

void collect(const ir::Expr& expr, Symbols& symbols) {
  if (!expr.is_constant()) {
    for (std::string& name : expr.symbols()) {
      symbols.insert(std::move(name));
    }
  }
}

void collect(const std::vector<ir::Expr>& exprs, Symbols& symbols) {
  for (const ir::Expr& expr : exprs) {
    collect(expr, symbols);
  }
}

// The symbol that `expr` is, if it is nothing more.
std::optional<std::string> bare_symbol(const ir::Expr& expr) {
  if (expr.is_constant()) {
    return std::nullopt;
  }
  const std::vector<std::string> names = expr.symbols();
  if (names.size() != 1 || !(ir::Expr::symbol(names.front()) == expr)) {
    return std::nullopt;
  }
  return names.front();
}

using Bound = std::map<std::string, SavedInteger, std::less<>>;

// The first value or primal's size that is exactly the symbol, for every symbol.
Bound available_bindings(const Joint& joint) {
  Bound bindings;
  const auto offer = [&](const ir::Expr& expr, SavedInteger integer) {
    if (auto name = bare_symbol(expr)) {
      integer.expr = expr;
      bindings.emplace(*std::move(name), std::move(integer));
    }
  };
  for (const ir::ValueId id : joint.values_in_order()) {
    const auto* integer = std::get_if<ir::SymIntMeta>(&joint.graph.value(id).meta);
    if (integer != nullptr && !joint.is_tangent[id.index()]) {
      offer(integer->expr, {.value = id});
    }
  }
  for (std::size_t i = 0; i < joint.primal_count; ++i) {
    const ir::ValueId id = joint.graph.inputs()[i].value;
    if (joint.graph.value(id).is_tensor()) {
      const auto& sizes = joint.graph.tensor(id).sizes;
      for (std::size_t d = 0; d < sizes.size(); ++d) {
        offer(sizes[d], {.tensor = id, .dimension = static_cast<std::int64_t>(d)});
      }
    }
  }
  return bindings;
}

bool is_size_of_a_tangent(const Joint& joint, const std::string& symbol) {
  const ir::Expr wanted = ir::Expr::symbol(symbol);
  for (const ir::Input& input : joint.graph.inputs().subspan(joint.primal_count)) {
    const auto& sizes = joint.graph.tensor(input.value).sizes;
    if (std::find(sizes.begin(), sizes.end(), wanted) != sizes.end()) {
      return true;
    }
  }
  return false;
}

}  // namespace

void collect_symbols(const ir::ValueMeta& meta, Symbols& symbols) {
  if (const auto* tensor = std::get_if<ir::TensorMeta>(&meta)) {
    collect(tensor->sizes, symbols);
    collect(tensor->strides, symbols);
    collect(tensor->offset, symbols);
  } else {
    collect(std::get<ir::SymIntMeta>(meta).expr, symbols);
  }
}

void collect_symbols(const ir::Node& node, Symbols& symbols) {
  for (const ir::Argument& argument : node.arguments) {
    if (const auto* expr = std::get_if<ir::Expr>(&argument)) {
      collect(*expr, symbols);
    } else if (const auto* exprs = std::get_if<std::vector<ir::Expr>>(&argument)) {
      collect(*exprs, symbols);
    } else if (const auto* real = std::get_if<ir::RealExpr>(&argument)) {
      for (std::string& name : real->symbols()) {
        symbols.insert(std::move(name));
      }
    }
  }
}

std::vector<SavedInteger> bind_symbols(const Joint& joint,
                                       const std::vector<ir::ValueId>& integers,
                                       const Symbols& symbols) {
  std::vector<SavedInteger> binding;
  std::vector<SavedInteger> derived;
  Symbols bound;
  for (const ir::ValueId id : integers) {
    const ir::Expr& expr = std::get<ir::SymIntMeta>(joint.graph.value(id).meta).expr;
    if (auto name = bare_symbol(expr)) {
      bound.insert(*std::move(name));
      binding.push_back({.value = id, .expr = expr});
    } else {
      derived.push_back({.value = id, .expr = expr});
    }
  }

  Symbols missing;
  std::set_difference(symbols.begin(),
                      symbols.end(),
                      bound.begin(),
                      bound.end(),
                      std::inserter(missing, missing.end()));
  if (!missing.empty()) {
    const Bound available = available_bindings(joint);
    for (const std::string& symbol : missing) {
      if (const auto found = available.find(symbol); found != available.end()) {
        binding.push_back(found->second);
      } else if (!is_size_of_a_tangent(joint, symbol)) {
        throw Error(ErrorCode::kInvalidArgument,
                    "joint graph: the backward needs the symbol " + symbol +
                        ", which is neither an integer of the graph nor the size of an input");
      }
    }
  }
  binding.insert(binding.end(), derived.begin(), derived.end());
  return binding;
}

}  // namespace kiln::partitioner
