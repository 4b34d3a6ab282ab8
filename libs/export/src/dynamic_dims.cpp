#include "kiln/export/dynamic_dims.hpp"

#include <algorithm>
#include <map>
#include <string_view>

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
    const auto known = names.first(std::min(names.size(), example.size()));
    const auto found = std::ranges::find(known, *name);
    if (found == known.end()) {
      reject(dim, "no input is called '" + *name + "'");
    }
    return static_cast<std::size_t>(found - known.begin());
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
    const std::string_view message = error.what();  // With the kind of error in front of it.
    reject(dim, std::string(message.substr(message.find(": ") + 2)));
  }
  if (!form) {
    reject(dim, "a size is a symbol, or a line in one, such as 2*n + 1");
  }
  return *form;
}

// The symbol's value where `form` is the example's `size`. `dimension` begins a message about it.
std::int64_t value_in_example(const DynamicDim& dim,
                              const ir::LinearForm& form,
                              std::int64_t size,
                              const std::string& dimension) {
  const std::string place = dimension + std::to_string(size) + " in the example, ";
  const std::int64_t distance = size - form.shift;
  const std::int64_t value = distance / form.scale;
  if (distance % form.scale != 0) {
    reject(dim, place + "and no '" + form.symbol + "' makes it that");
  }
  if (value < dim.min || value > dim.max) {
    reject(dim,
           place + "but '" + form.symbol + "' must be " +
               (dim.max == INT64_MAX
                    ? "at least " + std::to_string(dim.min)
                    : "in " + std::to_string(dim.min) + " … " + std::to_string(dim.max)));
  }
  return value;
}

constexpr std::string_view kAuto = "auto";

template <class IsTaken>
ir::LinearForm own_symbol(const IsTaken& is_taken) {
  std::string name;
  for (int number = 0; name.empty() || is_taken(name); ++number) {
    name = std::string(kAuto) + std::to_string(number);
  }
  return {.symbol = name};
}

}  // namespace

DynamicShapes dynamic_shapes_of(std::span<const DynamicDim> dims,
                                const Tensors& example,
                                std::span<const std::string> names) {
  DynamicShapes shapes;
  shapes.input_sizes.resize(example.size());
  const auto is_taken = [&](const std::string& name) {
    return shapes.automatic.contains(name) || std::ranges::any_of(dims, [&](const DynamicDim& dim) {
             return dim.name != kAuto && form_of(dim).symbol == name;
           });
  };
  std::map<std::string, std::int64_t> values;
  for (const DynamicDim& dim : dims) {
    const std::size_t input = input_of(dim, example, names);
    if (dim.min > dim.max) {
      reject(dim,
             "its least value is " + std::to_string(dim.min) + ", its largest " +
                 std::to_string(dim.max));
    }
    if (!example[input].defined()) {
      reject(dim, "input " + std::to_string(input) + " is undefined");
    }
    const std::int64_t rank = example[input].dim();
    if (dim.dim < -rank || dim.dim >= rank) {
      reject(dim,
             "input " + std::to_string(input) + " has " + std::to_string(rank) +
                 " dimensions, no " + std::to_string(dim.dim));
    }
    const std::int64_t at = dim.dim < 0 ? dim.dim + rank : dim.dim;
    if (dim.name == kAuto && example[input].size(at) < 2) {
      continue;
    }
    const ir::LinearForm form = dim.name == kAuto ? own_symbol(is_taken) : form_of(dim);
    if (dim.name == kAuto) {
      shapes.automatic.insert(form.symbol);
    }
    const std::string dimension =
        "dimension " + std::to_string(at) + " of input " + std::to_string(input) + " is ";
    const std::int64_t value = value_in_example(dim, form, example[input].size(at), dimension);
    const auto [known, is_new] = values.try_emplace(form.symbol, value);
    if (known->second != value) {
      reject(dim,
             dimension + std::to_string(example[input].size(at)) + " in the example, but '" +
                 form.symbol + "' is " + std::to_string(known->second));
    }
    std::vector<ir::Expr>& sizes = shapes.input_sizes[input];
    if (sizes.empty()) {
      for (const std::int64_t size : example[input].sizes()) {
        sizes.emplace_back(size);
      }
    }
    ir::Expr& size = sizes[static_cast<std::size_t>(at)];
    const ir::Expr wanted =
        ir::Expr::symbol(form.symbol) * ir::Expr(form.scale) + ir::Expr(form.shift);
    if (!size.is_constant() && !(size == wanted)) {
      reject(dim, dimension + "'" + size.to_string() + "' already");
    }
    size = wanted;
    ir::Range& range =
        shapes.symbols.try_emplace(form.symbol, ir::Range{dim.min, dim.max}).first->second;
    range = {std::max(range.low, dim.min), std::min(range.high, dim.max)};
  }
  return shapes;
}

void merge_symbols(DynamicShapes* shapes, const std::string& symbol, const std::string& other) {
  for (std::vector<ir::Expr>& sizes : shapes->input_sizes) {
    for (ir::Expr& size : sizes) {
      size = size.substitute(
          [&](const std::string& name) { return ir::Expr::symbol(name == symbol ? other : name); });
    }
  }
  const ir::Range merged = shapes->symbols.at(symbol);
  ir::Range& range = shapes->symbols.at(other);
  range = {std::max(range.low, merged.low), std::min(range.high, merged.high)};
  shapes->symbols.erase(symbol);
  shapes->automatic.erase(symbol);
}

void merge_equal_sizes(DynamicShapes* shapes, const Tensors& example) {
  const ir::Bindings values = sizes_in(*shapes, example);
  for (const auto& [symbol, value] : values) {
    const auto other = std::ranges::find_if(values, [&](const auto& entry) {
      return entry.second == value && entry.first != symbol &&
             shapes->symbols.contains(entry.first);
    });
    if (shapes->automatic.contains(symbol) && other != values.end()) {
      merge_symbols(shapes, symbol, other->first);
    }
  }
}

ir::Bindings sizes_in(const DynamicShapes& shapes, const Tensors& example) {
  ir::Bindings values;
  for (std::size_t i = 0; i < shapes.input_sizes.size(); ++i) {
    const std::vector<ir::Expr>& sizes = shapes.input_sizes[i];
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const std::optional<ir::LinearForm> form = ir::linear_form(sizes[d]);
      const std::int64_t size = example[i].size(static_cast<std::int64_t>(d));
      if (form && (size - form->shift) % form->scale == 0) {
        values.try_emplace(form->symbol, (size - form->shift) / form->scale);
      }
    }
  }
  return values;
}

}  // namespace kiln::exporter
