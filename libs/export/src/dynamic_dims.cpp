#include "kiln/export/dynamic_dims.hpp"

#include <algorithm>
#include <map>

#include "kiln/base/error.hpp"
#include "kiln/export/exported_program.hpp"
#include "kiln/ir/symbol_sources.hpp"

namespace kiln::exporter {
namespace {

[[noreturn]] void reject(const DynamicDim& dim, const std::string& reason) {
  throw Error(ErrorCode::kInvalidArgument, "the dynamic dimension '" + dim.name + "': " + reason);
}

std::size_t input_of(const DynamicDim& dim,
                     const Tensors& example,
                     std::span<const std::string> names) {
  if (const auto* name = std::get_if<std::string>(&dim.input)) {
    const auto found = std::ranges::find(names, *name);
    if (found == names.end()) {
      reject(dim, "no input is called '" + *name + "'");
    }
    return static_cast<std::size_t>(found - names.begin());
  }
  const std::size_t position = std::get<std::size_t>(dim.input);
  if (position >= example.size()) {
    reject(dim,
           "there is no input " + std::to_string(position) + ", only " +
               std::to_string(example.size()));
  }
  return position;
}

ir::LinearForm form_of(const DynamicDim& dim) {
  std::optional<ir::LinearForm> form;
  try {
    form = ir::linear_form(ir::Expr::parse(dim.name));
  } catch (const Error& error) {
    reject(dim, error.what());
  }
  if (!form) {
    reject(dim, "a size is a symbol, or a line in one, such as 2*n + 1");
  }
  return *form;
}

}  // namespace

DynamicShapes dynamic_shapes_of(std::span<const DynamicDim> dims,
                                const Tensors& example,
                                std::span<const std::string> names) {
  DynamicShapes shapes;
  shapes.input_sizes.resize(example.size());
  std::map<std::string, std::int64_t> values;
  for (const DynamicDim& dim : dims) {
    const std::size_t input = input_of(dim, example, names);
    const std::int64_t rank = example[input].dim();
    if (dim.dim < -rank || dim.dim >= rank) {
      reject(dim,
             "input " + std::to_string(input) + " has " + std::to_string(rank) +
                 " dimensions, no " + std::to_string(dim.dim));
    }
    const std::int64_t at = dim.dim < 0 ? dim.dim + rank : dim.dim;
    const ir::LinearForm form = form_of(dim);
    const std::int64_t distance = example[input].size(at) - form.shift;
    const std::int64_t value = distance / form.scale;
    const auto [known, is_new] = values.try_emplace(form.symbol, value);
    if (distance % form.scale != 0 || known->second != value || value < dim.min ||
        value > dim.max) {
      reject(dim,
             "dimension " + std::to_string(at) + " of input " + std::to_string(input) + " is " +
                 std::to_string(example[input].size(at)) + " in the example");
    }
    std::vector<ir::Expr>& sizes = shapes.input_sizes[input];
    if (sizes.empty()) {
      for (const std::int64_t size : example[input].sizes()) {
        sizes.emplace_back(size);
      }
    }
    sizes[static_cast<std::size_t>(at)] = ir::Expr::parse(dim.name);
    ir::Range& range =
        shapes.symbols.try_emplace(form.symbol, ir::Range{dim.min, dim.max}).first->second;
    range = {std::max(range.low, dim.min), std::min(range.high, dim.max)};
  }
  return shapes;
}

}  // namespace kiln::exporter
