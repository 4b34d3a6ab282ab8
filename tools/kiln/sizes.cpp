#include "sizes.hpp"

#include <ATen/Functions.h>

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
      for (const nlohmann::json& size : dims.is_array() ? dims : nlohmann::json{dims}) {
        declared.sizes.push_back(expr_of(size));
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kCorrupt, std::string(kSizesKey) + " of the package: " + error.what());
  }
  return sizes;
}

// "x[0]"
std::string place(const DeclaredInput& input, std::size_t dim) {
  return input.name + "[" + std::to_string(dim) + "]";
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
  return symbol + (places.empty() ? "" : ", which is " + places) + ": " +
         std::to_string(range.low) + " … " +
         (range.high == ir::Range().high ? "any" : std::to_string(range.high));
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
    bindings.insert_or_assign(binding->first, binding->second);
  }
  return bindings;
}

// What the inputs give for the symbols that are not bound yet.
void bind_rest(const DeclaredSizes& sizes,
               const std::vector<at::Tensor>& inputs,
               ir::Bindings& bindings) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t dim = 0; dim < sizes.inputs[i].sizes.size(); ++dim) {
      if (const auto form = ir::linear_form(sizes.inputs[i].sizes[dim])) {
        const bool is_integer = inputs[i].dim() == 0;
        const std::int64_t size =
            is_integer ? inputs[i].item().toLong() : inputs[i].size(static_cast<std::int64_t>(dim));
        bindings.emplace(form->symbol, (size - form->shift) / form->scale);
      }
    }
  }
}

at::Tensor resized_input(at::Tensor input,
                         const std::vector<ir::Expr>& sizes,
                         const ir::Bindings& bindings) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t size = sizes[i].evaluate(bindings);
    if (input.dim() == 0) {
      return at::scalar_tensor(size, input.options());
    }
    const auto dim = static_cast<std::int64_t>(i);
    if (input.size(dim) != size) {
      // Its own rows, so that indices stay valid.
      const at::Tensor rows = at::arange(size, input.options().dtype(at::kLong));
      input = input.index_select(dim, rows.remainder(input.size(dim)));
    }
  }
  return input;
}

}  // namespace

std::vector<at::Tensor> resized(std::vector<at::Tensor> inputs,
                                const std::filesystem::path& package,
                                const std::vector<std::string>& wanted) {
  if (wanted.empty()) {
    return inputs;
  }
  std::string text;
  if (package.extension() == ".pt2") {
    const auto metadata = container_runtime::Package(package).metadata("model");
    const auto found = metadata.find(kSizesKey);
    text = found == metadata.end() ? "" : found->second;
  }
  if (text.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                package.string() + " declares no dynamic sizes, so --size does not apply");
  }
  const DeclaredSizes sizes = read_sizes(text);
  ir::Bindings bindings = parse_wanted(wanted, sizes);
  if (sizes.inputs.size() != inputs.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the package takes " + std::to_string(sizes.inputs.size()) + " inputs, and " +
                    std::to_string(inputs.size()) + " are given");
  }
  bind_rest(sizes, inputs, bindings);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = resized_input(inputs[i], sizes.inputs[i].sizes, bindings);
  }
  return inputs;
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
      lines.push_back(input.name + "  [" + text + "]");
    }
  }
  for (const auto& [symbol, range] : sizes.symbols) {
    lines.push_back(describe_symbol(sizes, symbol, range));
  }
  return lines;
}

}  // namespace kiln::tool
