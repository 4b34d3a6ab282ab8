#include "symbolic_sizes.hpp"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <sstream>

#include "kiln/base/error.hpp"
#include "kiln/ir/symbol_sources.hpp"

namespace kiln {
namespace {

constexpr std::size_t kMaxSymbols = 64;

bool is_symbolic(const ir::Expr& expr) {
  return !expr.is_constant();
}

std::string range_words(const ir::Range& range) {
  return range.high == std::numeric_limits<std::int64_t>::max()
             ? c10::str("at least ", range.low)
             : c10::str(range.low, " … ", range.high);
}

// Dimensions, the innermost first, of which each stride is the product of the sizes before it.
std::optional<std::vector<std::uint32_t>> dense_order(const ir::TensorMeta& meta,
                                                      const ir::Ranges& ranges) {
  // The innermost is the one whose stride is least where all symbols are large.
  ir::Bindings large;
  for (const auto& [name, range] : ranges) {
    large[name] = 64;
  }
  std::vector<std::uint32_t> order(meta.sizes.size());
  std::iota(order.rbegin(), order.rend(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return meta.strides[a].evaluate(large) < meta.strides[b].evaluate(large);
  });
  ir::Expr stride = 1;
  for (const std::uint32_t d : order) {
    if (!(meta.strides[d] == stride)) {
      return std::nullopt;
    }
    stride = stride * meta.sizes[d];
  }
  return order;
}

}  // namespace

SymbolicSizes::SymbolicSizes(const ir::Graph& graph,
                             const std::vector<autograd_dispatch::InputPlan>& inputs,
                             ir::Ranges ranges) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ir::Value& value = graph.value(graph.inputs()[i].value);
    if (!value.is_tensor() || (std::ranges::none_of(value.tensor().sizes, is_symbolic) &&
                               std::ranges::none_of(value.tensor().strides, is_symbolic))) {
      continue;
    }
    const ir::TensorMeta& meta = value.tensor();
    const auto order = dense_order(meta, ranges);
    if (!order || inputs[i].base) {
      throw Error(
          ErrorCode::kUnsupported,
          c10::str("input ",
                   inputs[i].argument,
                   inputs[i].base
                       ? " has dynamic sizes but shares memory with another input; pass a copy"
                       : " has dynamic sizes but is not dense; pass a contiguous tensor"));
    }
    Argument argument{.position = inputs[i].argument, .sizes = {}, .order = *order};
    for (const ir::Expr& size : meta.sizes) {
      if (!is_symbolic(size)) {
        argument.sizes.push_back({.shift = *size.constant()});
        continue;
      }
      const std::optional<ir::LinearForm> form = ir::linear_form(size);
      if (!form) {
        throw Error(ErrorCode::kUnsupported,
                    c10::str("input ",
                             inputs[i].argument,
                             ": the size ",
                             size.to_string(),
                             " is not linear in one symbol"));
      }
      argument.sizes.push_back(
          {.symbol = number_of(form->symbol), .scale = form->scale, .shift = form->shift});
    }
    arguments_.push_back(std::move(argument));
  }
  if (symbols_.size() > kMaxSymbols) {
    throw Error(ErrorCode::kUnsupported,
                c10::str("too many independent dynamic sizes (at most ", kMaxSymbols, ")"));
  }
  find_sources();
  set_ranges(ranges);
}

std::int32_t SymbolicSizes::number_of(const std::string& symbol) {
  const auto known = std::ranges::find(symbols_, symbol, &Symbol::name);
  if (known == symbols_.end()) {
    symbols_.push_back({.name = symbol, .range = {}});
    return static_cast<std::int32_t>(symbols_.size() - 1);
  }
  return static_cast<std::int32_t>(known - symbols_.begin());
}

void SymbolicSizes::find_sources() {
  std::vector<bool> is_read(symbols_.size(), false);
  for (Argument& argument : arguments_) {
    for (Size& size : argument.sizes) {
      if (size.symbol >= 0 && !is_read[static_cast<std::size_t>(size.symbol)]) {
        is_read[static_cast<std::size_t>(size.symbol)] = true;
        size.is_source = true;
      }
    }
  }
}

bool SymbolicSizes::mentions(std::size_t argument) const {
  return std::ranges::find(arguments_, argument, &Argument::position) != arguments_.end();
}

bool SymbolicSizes::has_ranks_of(const std::vector<at::Tensor>& arguments) const {
  return std::ranges::all_of(arguments_, [&](const Argument& argument) {
    return argument.position < arguments.size() && arguments[argument.position].defined() &&
           arguments[argument.position].sizes().size() == argument.sizes.size();
  });
}

template <class Failure>
bool SymbolicSizes::check(const std::vector<at::Tensor>& arguments, const Failure& failure) const {
  std::array<std::int64_t, kMaxSymbols> values;  // Each is written before it is read.
  for (const Argument& argument : arguments_) {
    const at::Tensor& tensor = arguments[argument.position];
    const at::IntArrayRef sizes = tensor.sizes();
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const Size& size = argument.sizes[d];
      if (!size.is_source) {
        const std::int64_t wanted =
            size.symbol < 0
                ? size.shift
                : size.scale * values[static_cast<std::size_t>(size.symbol)] + size.shift;
        if (sizes[d] != wanted) {
          failure(argument, d, size, sizes[d], wanted);
          return false;
        }
        continue;
      }
      const std::int64_t distance = sizes[d] - size.shift;
      const ir::Range& range = symbols_[static_cast<std::size_t>(size.symbol)].range;
      const std::int64_t value = distance / size.scale;
      if (distance % size.scale != 0 || value < range.low || value > range.high) {
        failure(argument, d, size, sizes[d], value);
        return false;
      }
      values[static_cast<std::size_t>(size.symbol)] = value;
    }
    const at::IntArrayRef strides = tensor.strides();
    std::int64_t stride = 1;
    for (const std::uint32_t d : argument.order) {
      if (strides[d] != stride) {
        failure(argument, d, std::nullopt, strides[d], stride);
        return false;
      }
      stride *= std::max<std::int64_t>(sizes[d], 1);  // As ATen lays out what is empty.
    }
  }
  return true;
}

bool SymbolicSizes::holds(const std::vector<at::Tensor>& arguments) const {
  return check(arguments, [](const auto&...) {});
}

std::optional<std::size_t> SymbolicSizes::first_mismatch(
    const std::vector<at::Tensor>& arguments) const {
  std::optional<std::size_t> first;
  static_cast<void>(check(
      arguments, [&](const Argument& argument, const auto&...) { first = argument.position; }));
  return first;
}

std::string SymbolicSizes::difference(const std::vector<at::Tensor>& arguments,
                                      const InputNames& names) const {
  std::string text;
  const auto failure = [&](const Argument& argument,
                           std::size_t dimension,
                           const std::optional<Size>& size,
                           std::int64_t found,
                           std::int64_t wanted) {
    if (!size) {
      text = c10::str(names.input(argument.position),
                      ", stride of dimension ",
                      dimension,
                      ": ",
                      found,
                      ", must be ",
                      wanted);
      return;
    }
    text = names.size(argument.position, dimension) + ": ";
    if (!size->is_source) {
      text += c10::str(found, ", compiled for ", expr_text(*size));
      text += size->symbol < 0 ? "" : c10::str(", here ", wanted);
    } else if (found != size->scale * wanted + size->shift) {
      text += c10::str(found, ", must be ", expr_text(*size));
    } else {
      const Symbol& symbol = symbols_[static_cast<std::size_t>(size->symbol)];
      text +=
          c10::str("'", symbol.name, "' is ", wanted, ", compiled for ", range_words(symbol.range));
    }
  };
  static_cast<void>(check(arguments, failure));
  return text;
}

std::string SymbolicSizes::expr_text(const Size& size) const {
  return size.symbol < 0 ? std::to_string(size.shift)
                         : (ir::Expr::symbol(symbols_[static_cast<std::size_t>(size.symbol)].name) *
                                ir::Expr(size.scale) +
                            ir::Expr(size.shift))
                               .to_string();
}

std::string SymbolicSizes::sizes_text(std::size_t argument) const {
  std::string text;
  for (const Size& size : std::ranges::find(arguments_, argument, &Argument::position)->sizes) {
    text += (text.empty() ? "[" : ", ") + expr_text(size);
  }
  return text + "]";
}

std::string SymbolicSizes::last_size_text(std::size_t argument) const {
  return expr_text(std::ranges::find(arguments_, argument, &Argument::position)->sizes.back());
}

std::vector<std::string> SymbolicSizes::describe(const InputNames& names) const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    std::string places;
    for (const Argument& argument : arguments_) {
      for (std::size_t d = 0; d < argument.sizes.size(); ++d) {
        if (argument.sizes[d].symbol == static_cast<std::int32_t>(i)) {
          places += (places.empty() ? ": " : "; ") + names.size(argument.position, d);
        }
      }
    }
    lines.push_back("'" + symbols_[i].name + "' in " + range_words(symbols_[i].range) + places);
  }
  return lines;
}

ir::Bindings SymbolicSizes::values(const std::vector<at::Tensor>& arguments) const {
  ir::Bindings values;
  for (const Argument& argument : arguments_) {
    for (std::size_t d = 0; d < argument.sizes.size(); ++d) {
      const Size& size = argument.sizes[d];
      if (size.is_source) {
        values[symbols_[static_cast<std::size_t>(size.symbol)].name] =
            (arguments[argument.position].size(static_cast<std::int64_t>(d)) - size.shift) /
            size.scale;
      }
    }
  }
  return values;
}

std::string SymbolicSizes::values_text(const std::vector<at::Tensor>& arguments) const {
  std::string text;
  for (const auto& [name, value] : values(arguments)) {
    text += (text.empty() ? "'" : ", '") + name + "' = " + std::to_string(value);
  }
  return text;
}

ir::Ranges SymbolicSizes::ranges() const {
  ir::Ranges ranges;
  for (const Symbol& symbol : symbols_) {
    ranges[symbol.name] = symbol.range;
  }
  return ranges;
}

void SymbolicSizes::set_ranges(const ir::Ranges& ranges) {
  for (Symbol& symbol : symbols_) {
    const auto range = ranges.find(symbol.name);
    if (range == ranges.end()) {
      throw Error(ErrorCode::kCorrupt, "the symbol '" + symbol.name + "' of a size has no range");
    }
    symbol.range = range->second;
  }
}

std::string SymbolicSizes::to_line() const {
  std::ostringstream line;
  line << symbols_.size();
  for (const Symbol& symbol : symbols_) {
    line << " " << symbol.name << " " << symbol.range.low << " " << symbol.range.high;
  }
  line << " " << arguments_.size();
  for (const Argument& argument : arguments_) {
    line << " " << argument.position << " " << argument.sizes.size();
    for (const Size& size : argument.sizes) {
      line << " " << size.symbol << " " << size.scale << " " << size.shift;
    }
    for (const std::uint32_t d : argument.order) {
      line << " " << d;
    }
  }
  return line.str();
}

SymbolicSizes SymbolicSizes::from_line(std::string_view line) {
  constexpr std::size_t kMost = 4096;  // Of anything, so that damaged text allocates little.
  std::istringstream text{std::string(line)};
  SymbolicSizes sizes;
  const auto count = [&] {
    std::size_t number = 0;
    text >> number;
    return text && number <= kMost ? number : 0;
  };
  sizes.symbols_.resize(count());
  for (Symbol& symbol : sizes.symbols_) {
    text >> symbol.name >> symbol.range.low >> symbol.range.high;
  }
  sizes.arguments_.resize(count());
  bool is_whole = !sizes.symbols_.empty() && sizes.symbols_.size() <= kMaxSymbols;
  for (Argument& argument : sizes.arguments_) {
    text >> argument.position;
    argument.sizes.resize(count());
    argument.order.resize(argument.sizes.size());
    for (Size& size : argument.sizes) {
      text >> size.symbol >> size.scale >> size.shift;
      is_whole = is_whole && size.scale != 0 &&
                 size.symbol < static_cast<std::int32_t>(sizes.symbols_.size());
    }
    for (std::uint32_t& d : argument.order) {
      text >> d;
      is_whole = is_whole && d < argument.sizes.size();
    }
  }
  if (!text || !is_whole) {
    throw Error(ErrorCode::kCorrupt, "malformed symbolic sizes in a cache entry");
  }
  sizes.find_sources();
  return sizes;
}

}  // namespace kiln
