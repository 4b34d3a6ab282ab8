#include "declared_sizes.hpp"

#include <nlohmann/json.hpp>

namespace kiln {
namespace {

nlohmann::json number(const ir::Expr& size) {
  return size.is_constant() ? nlohmann::json(*size.constant()) : nlohmann::json(size.to_string());
}

nlohmann::json sizes_of(const ir::Value& value) {
  if (!value.is_tensor()) {
    return number(std::get<ir::SymIntMeta>(value.meta).expr);
  }
  nlohmann::json sizes = nlohmann::json::array();
  for (const ir::Expr& size : value.tensor().sizes) {
    sizes.push_back(number(size));
  }
  return sizes;
}

}  // namespace

std::string declared_sizes(const ir::Graph& graph) {
  if (graph.symbols().empty()) {
    return {};
  }
  nlohmann::json symbols = nlohmann::json::object();
  for (const auto& [symbol, range] : graph.symbols()) {
    symbols[symbol] = {range.low, range.high};
  }
  nlohmann::json inputs = nlohmann::json::array();
  for (const ir::Input& input : graph.inputs()) {
    if (input.kind == ir::InputKind::kUser) {
      const ir::Value& value = graph.value(input.value);
      inputs.push_back(
          {{"name", input.name.empty() ? value.name : input.name}, {"sizes", sizes_of(value)}});
    }
  }
  return nlohmann::json{{"symbols", symbols}, {"inputs", inputs}}.dump();
}

}  // namespace kiln
