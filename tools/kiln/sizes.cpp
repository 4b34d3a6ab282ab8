#include "sizes.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/container_runtime/package.hpp"
#include "kiln/ir/expr.hpp"
#include "kiln/ir/symbol_sources.hpp"

namespace kiln::tool {
namespace {

struct DeclaredInput {
  std::string name;
  bool is_integer = false;
  std::vector<ir::Expr> sizes;  // Of an integer: itself.
};

// What a package says of the sizes of its inputs.
struct DeclaredSizes {
  ir::Ranges symbols;
  std::vector<DeclaredInput> inputs;
};

ir::Expr expr_of(const nlohmann::json& size) {
  return size.is_string() ? ir::Expr::parse(size.get<std::string>()) : ir::Expr(size);
}

DeclaredSizes read_sizes(const std::string& text) {
  DeclaredSizes sizes;
  try {
    const nlohmann::json root = nlohmann::json::parse(text);
    for (const auto& [symbol, range] : root.at("symbols").items()) {
      sizes.symbols.emplace(symbol, ir::Range{range.at(0), range.at(1)});
    }
    for (const nlohmann::json& input : root.at("inputs")) {
      DeclaredInput& declared = sizes.inputs.emplace_back();
      declared.name = input.at("name");
      const nlohmann::json& dims = input.at("sizes");
      declared.is_integer = !dims.is_array();
      for (const nlohmann::json& size : dims.is_array() ? dims : nlohmann::json{dims}) {
        declared.sizes.push_back(expr_of(size));
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kCorrupt, std::string(kSizesKey) + " of the package: " + error.what());
  }
  return sizes;
}

// "x[0]", or the name of an integer.
std::string place(const DeclaredInput& input, std::size_t dim) {
  return input.is_integer ? input.name : input.name + "[" + std::to_string(dim) + "]";
}

// "1 … 512"
std::string describe_range(const ir::Range& range) {
  return std::to_string(range.low) + " … " +
         (range.high == ir::Range().high ? "any" : std::to_string(range.high));
}

// "s31, which is x[0] and y[0]: 1 … 512"
std::string describe_symbol(const DeclaredSizes& sizes,
                            const std::string& symbol,
                            const ir::Range& range) {
  std::string places;
  for (const DeclaredInput& input : sizes.inputs) {
    for (std::size_t dim = 0; dim < input.sizes.size(); ++dim) {
      if (input.sizes[dim] == ir::Expr::symbol(symbol)) {
        places += (places.empty() ? "" : " and ") + place(input, dim);
      }
    }
  }
  return symbol + (places.empty() ? "" : ", which is " + places) + ": " + describe_range(range);
}

std::string describe_symbols(const DeclaredSizes& sizes) {
  std::string text;
  for (const auto& [symbol, range] : sizes.symbols) {
    text += (text.empty() ? "" : "; ") + describe_symbol(sizes, symbol, range);
  }
  return text;
}

// The symbol, and the value, where `name` is "n" or "x[0]"; nothing if there is no such size.
std::optional<std::pair<std::string, std::int64_t>> binding_of(const DeclaredSizes& sizes,
                                                               const std::string& name,
                                                               std::int64_t value) {
  if (sizes.symbols.contains(name)) {
    return std::pair(name, value);
  }
  for (const DeclaredInput& input : sizes.inputs) {
    for (std::size_t dim = 0; dim < input.sizes.size(); ++dim) {
      const auto form = ir::linear_form(input.sizes[dim]);
      if (place(input, dim) != name || !form) {
        continue;
      }
      if ((value - form->shift) % form->scale != 0) {
        throw Error(ErrorCode::kInvalidArgument,
                    "--size " + name + "=" + std::to_string(value) + " must be " +
                        input.sizes[dim].to_string() + " for an integer " + form->symbol);
      }
      return std::pair(form->symbol, (value - form->shift) / form->scale);
    }
  }
  return std::nullopt;
}

void require_in_range(const std::string& item,
                      const std::string& symbol,
                      std::int64_t value,
                      const ir::Ranges& ranges) {
  const auto range = ranges.find(symbol);
  if (range != ranges.end() && (value < range->second.low || value > range->second.high)) {
    throw Error(ErrorCode::kInvalidArgument,
                "--size " + item + " makes " + symbol + " " + std::to_string(value) +
                    "; it must be " + describe_range(range->second));
  }
}

ir::Bindings parse_wanted(const std::vector<std::string>& wanted, const DeclaredSizes& sizes) {
  ir::Bindings bindings;
  for (const std::string& item : wanted) {
    const std::size_t equals = item.rfind('=');
    const std::string name = item.substr(0, equals);
    const char* const end = item.data() + item.size();
    std::int64_t value = -1;
    const auto [stop, problem] =
        std::from_chars(equals == std::string::npos ? end : item.data() + equals + 1, end, value);
    if (problem != std::errc() || stop != end || value < 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "--size " + item + " does not have the form NAME=N with a size N");
    }
    const auto binding = binding_of(sizes, name, value);
    if (!binding) {
      throw Error(
          ErrorCode::kInvalidArgument,
          "the package has no size '" + name + "' that varies; it has " + describe_symbols(sizes));
    }
    require_in_range(item, binding->first, binding->second, sizes.symbols);
    const auto known = bindings.emplace(binding->first, binding->second).first;
    if (known->second != binding->second) {
      throw Error(ErrorCode::kInvalidArgument,
                  "--size " + item + " makes " + binding->first + " " +
                      std::to_string(binding->second) + ", and another --size makes it " +
                      std::to_string(known->second));
    }
  }
  return bindings;
}

void require_dimensions(const DeclaredInput& declared, const at::Tensor& input) {
  const std::size_t dims = declared.is_integer ? 0 : declared.sizes.size();
  if (static_cast<std::size_t>(input.dim()) != dims) {
    throw Error(ErrorCode::kInvalidArgument,
                "the input " + declared.name + " has " + std::to_string(input.dim()) +
                    " dimensions, and the package takes " + std::to_string(dims));
  }
}

// As many inputs as the package takes, each of its rank.
void require_inputs(const DeclaredSizes& sizes, const std::vector<at::Tensor>& inputs) {
  if (sizes.inputs.size() != inputs.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the package takes " + std::to_string(sizes.inputs.size()) + " inputs, and " +
                    std::to_string(inputs.size()) + " are given");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_dimensions(sizes.inputs[i], inputs[i]);
  }
}

// The size of a dimension, or the integer that the input is.
std::int64_t size_of(const DeclaredInput& declared, const at::Tensor& input, std::size_t dim) {
  return declared.is_integer ? input.item().toLong() : input.size(static_cast<std::int64_t>(dim));
}

// What is asked for, and what the inputs give for the other symbols.
ir::Bindings with_rest_bound(const DeclaredSizes& sizes,
                             const std::vector<at::Tensor>& inputs,
                             ir::Bindings bindings) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t dim = 0; dim < sizes.inputs[i].sizes.size(); ++dim) {
      if (const auto form = ir::linear_form(sizes.inputs[i].sizes[dim])) {
        const std::int64_t size = size_of(sizes.inputs[i], inputs[i], dim);
        bindings.emplace(form->symbol, (size - form->shift) / form->scale);
      }
    }
  }
  return bindings;
}

[[noreturn]] void refuse_size(const DeclaredInput& declared,
                              std::size_t dim,
                              std::int64_t is,
                              std::int64_t should) {
  const ir::Expr& size = declared.sizes[dim];
  throw Error(ErrorCode::kInvalidArgument,
              place(declared, dim) + " is " + std::to_string(is) + ", and the package takes " +
                  (size.is_constant() ? "" : size.to_string() + " = ") + std::to_string(should) +
                  " with these inputs; --size changes only what it names");
}

// With other sizes where an expression has one of the symbols that are asked for.
at::Tensor resized_input(at::Tensor input,
                         const DeclaredInput& declared,
                         const ir::Bindings& asked,
                         const ir::Bindings& bindings) {
  for (std::size_t i = 0; i < declared.sizes.size(); ++i) {
    const std::int64_t size = declared.sizes[i].evaluate(bindings);
    const std::int64_t given = size_of(declared, input, i);
    if (given == size) {
      continue;
    }
    const std::vector<std::string> symbols = declared.sizes[i].symbols();
    const bool is_asked_for = std::ranges::any_of(
        symbols, [&](const std::string& symbol) { return asked.contains(symbol); });
    if (!is_asked_for) {
      refuse_size(declared, i, given, size);
    }
    if (declared.is_integer) {
      return at::scalar_tensor(size, input.options());
    }
    if (given == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  place(declared, i) + " is 0: there is nothing to repeat for --size");
    }
    // Its own rows, so that indices stay valid.
    const at::Tensor rows = at::arange(size, input.options().dtype(at::kLong));
    input = input.index_select(static_cast<std::int64_t>(i), rows.remainder(given));
  }
  return input;
}

// What the package's metadata has; empty if nothing.
std::string declared_by(const std::filesystem::path& package) {
  if (package.extension() != ".pt2") {
    return {};
  }
  const auto metadata = container_runtime::Package(package).metadata("model");
  const auto found = metadata.find(kSizesKey);
  return found == metadata.end() ? "" : found->second;
}

}  // namespace

std::vector<bool> integer_inputs(const std::filesystem::path& package) {
  const std::string text = declared_by(package);
  std::vector<bool> integers;
  for (const DeclaredInput& input :
       text.empty() ? DeclaredSizes{}.inputs : read_sizes(text).inputs) {
    integers.push_back(input.is_integer);
  }
  return integers;
}

std::vector<at::Tensor> resized(std::vector<at::Tensor> inputs,
                                const std::filesystem::path& package,
                                const std::vector<std::string>& wanted) {
  if (wanted.empty()) {
    return inputs;
  }
  const std::string text = declared_by(package);
  if (text.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                package.string() + " declares no dynamic sizes, so --size does not apply");
  }
  const DeclaredSizes sizes = read_sizes(text);
  const ir::Bindings asked = parse_wanted(wanted, sizes);
  require_inputs(sizes, inputs);
  const ir::Bindings bindings = with_rest_bound(sizes, inputs, asked);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = resized_input(inputs[i], sizes.inputs[i], asked, bindings);
  }
  return inputs;
}

ir::Bindings symbols_of(const std::filesystem::path& package,
                        const std::vector<at::Tensor>& inputs) {
  const std::string text = declared_by(package);
  const DeclaredSizes sizes = text.empty() ? DeclaredSizes{} : read_sizes(text);
  if (sizes.symbols.empty()) {
    return {};
  }
  require_inputs(sizes, inputs);
  return with_rest_bound(sizes, inputs, {});
}

std::vector<std::string> describe_sizes(const std::string& declared) {
  const DeclaredSizes sizes = read_sizes(declared);
  std::vector<std::string> lines;
  for (const DeclaredInput& input : sizes.inputs) {
    std::string text;
    bool varies = false;
    for (const ir::Expr& size : input.sizes) {
      text += (text.empty() ? "" : ", ") + size.to_string();
      varies = varies || !size.is_constant();
    }
    if (varies) {
      lines.push_back(input.name + "  " + (input.is_integer ? text : "[" + text + "]"));
    }
  }
  for (const auto& [symbol, range] : sizes.symbols) {
    lines.push_back(describe_symbol(sizes, symbol, range));
  }
  return lines;
}

}  // namespace kiln::tool
