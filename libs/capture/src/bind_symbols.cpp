#include "bind_symbols.hpp"

#include <string>

#include "kiln/base/error.hpp"
#include "kiln/ir/symbol_sources.hpp"

namespace kiln::capture {
namespace {

std::string input_name(const ir::Graph& graph, std::size_t input) {
  return "input " + std::to_string(input) + " '" + graph.inputs()[input].name + "'";
}

std::string dimension_of(const ir::Graph& graph, std::size_t input, std::size_t dimension) {
  return input_name(graph, input) + ", dimension " + std::to_string(dimension);
}

[[noreturn]] void refuse_size(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

void check_sizes(const ir::Graph& graph,
                 const std::vector<at::Tensor>& inputs,
                 const ir::Bindings& values) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!graph.value(graph.inputs()[i].value).is_tensor()) {
      continue;
    }
    const std::vector<ir::Expr>& sizes = graph.tensor(graph.inputs()[i].value).sizes;
    if (inputs[i].dim() != static_cast<std::int64_t>(sizes.size())) {
      refuse_size(input_name(graph, i) + " has " + std::to_string(inputs[i].dim()) +
                  " dimensions, must have " + std::to_string(sizes.size()));
    }
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const std::int64_t found = inputs[i].size(static_cast<std::int64_t>(d));
      if (!sizes[d].is_constant() && sizes[d].evaluate(values) != found) {
        refuse_size(dimension_of(graph, i, d) + ": " + std::to_string(found) + ", but '" +
                    sizes[d].to_string() + "' is " + std::to_string(sizes[d].evaluate(values)));
      }
    }
  }
}

}  // namespace

void check_integers(const ir::Graph& graph,
                    const std::vector<at::Tensor>& inputs,
                    const ir::Bindings& values) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ir::Input& input = graph.inputs()[i];
    const auto* integer = std::get_if<ir::SymIntMeta>(&graph.value(input.value).meta);
    if (integer == nullptr || input.kind != ir::InputKind::kUser) {
      continue;
    }
    const std::int64_t wanted = integer->expr.evaluate(values);
    const auto found = inputs[i].item<std::int64_t>();
    if (found != wanted) {
      refuse_size(input_name(graph, i) + ": " + std::to_string(found) +
                  (integer->expr.is_constant()
                       ? ", must be " + std::to_string(wanted)
                       : ", but '" + integer->expr.to_string() + "' is " + std::to_string(wanted)));
    }
  }
}

ir::Bindings bind_symbols(const ir::Graph& graph, const std::vector<at::Tensor>& inputs) {
  ir::Bindings values;
  for (const ir::SymbolSource& source : ir::find_symbol_sources(graph)) {
    if (inputs[source.input].dim() <= source.dimension) {
      refuse_size("input " + std::to_string(source.input) + " has no dimension " +
                  std::to_string(source.dimension));
    }
    const bool is_integer = source.dimension < 0;
    const std::int64_t distance = (is_integer ? inputs[source.input].item<std::int64_t>()
                                              : inputs[source.input].size(source.dimension)) -
                                  source.shift;
    const std::string place =
        is_integer ? input_name(graph, source.input)
                   : dimension_of(graph, source.input, static_cast<std::size_t>(source.dimension));
    if (distance % source.scale != 0) {
      refuse_size(place + ": " + std::to_string(distance + source.shift) +
                  " does not give an integer '" + source.symbol + "'");
    }
    const std::int64_t value = distance / source.scale;
    const auto range = graph.symbols().find(source.symbol);
    if (range != graph.symbols().end() &&
        (value < range->second.low || value > range->second.high)) {
      refuse_size(place + ": '" + source.symbol + "' is " + std::to_string(value) + ", must be " +
                  std::to_string(range->second.low) + " … " + std::to_string(range->second.high));
    }
    values[source.symbol] = value;
  }
  check_integers(graph, inputs, values);
  check_sizes(graph, inputs, values);
  for (const ir::Guard& guard : graph.guards()) {
    if (!guard.holds(values)) {
      refuse_size("the sizes break '" + guard.to_string() +
                  "', which the program was traced under: '" + guard.left.to_string() + "' is " +
                  std::to_string(guard.left.evaluate(values)) + ", and '" +
                  guard.right.to_string() + "' is " + std::to_string(guard.right.evaluate(values)));
    }
  }
  return values;
}

}  // namespace kiln::capture
