#include "changed_dims.hpp"

#include <algorithm>
#include <map>

#include "kiln/ir/symbol_sources.hpp"

namespace kiln {
namespace {

using exporter::DynamicShapes;

// Sizes at which a symbol is traced in addition to its samples: all small sizes, because programs
// branch there more often than elsewhere, and then in growing steps.
std::vector<std::int64_t> sizes_to_confirm(std::int64_t high) {
  constexpr std::int64_t kSmall = 17;
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 2; size <= high; size += size < kSmall ? 1 : size / 2) {
    sizes.push_back(size);
  }
  return sizes;
}

// Adds symbols to the declared ones.
class SymbolMaker {
 public:
  SymbolMaker(DynamicShapes& shapes, const Tensors& inputs) : shapes_(shapes), inputs_(inputs) {}

  // `history` has the sizes of the dimension in all calls. Dimensions with equal ones share a
  // symbol.
  void add(std::size_t input, std::size_t dimension, const std::vector<std::int64_t>& history) {
    std::vector<ir::Expr>& sizes = shapes_.input_sizes[input];
    if (sizes.empty()) {
      for (const std::int64_t size : inputs_[input].sizes()) {
        sizes.emplace_back(size);
      }
    }
    if (!sizes[dimension].is_constant()) {
      return;  // It was declared.
    }
    const auto [symbol, is_new] = symbols_.try_emplace(history, "");
    if (is_new) {
      symbol->second = new_name();
      shapes_.symbols[symbol->second] = {.low = 0};
      for (const std::int64_t size : history) {
        shapes_.confirm.push_back({{symbol->second, size}});
      }
    }
    sizes[dimension] = ir::Expr::symbol(symbol->second);
  }

 private:
  std::string new_name() {
    std::string name;
    do {
      name = "s" + std::to_string(next_++);
    } while (shapes_.symbols.contains(name));
    return name;
  }

  DynamicShapes& shapes_;
  const Tensors& inputs_;
  int next_ = 0;
  std::map<std::vector<std::int64_t>, std::string> symbols_;
};

// From this input on, inputs stand for integers, with which a function must not be called unless
// its caller did so.
std::size_t first_integer(const Tensors& inputs, const IntegerHistory* history) {
  return inputs.size() - (history == nullptr ? 0 : history->count());
}

// The largest value at which a symbol is traced, if it has the value `size` in a call.
std::int64_t reach_of(std::int64_t size) {
  return std::max<std::int64_t>(1024, 4 * size);
}

}  // namespace

ir::Ranges clamp_to_traced_range(ir::Ranges ranges,
                                 const std::vector<std::vector<ir::Expr>>& input_sizes,
                                 const Tensors& inputs,
                                 const IntegerHistory* history) {
  const std::size_t first = first_integer(inputs, history);
  for (std::size_t i = 0; i < input_sizes.size(); ++i) {
    for (std::size_t d = 0; d < input_sizes[i].size(); ++d) {
      if (const auto form = ir::linear_form(input_sizes[i][d])) {
        const std::int64_t size =
            (inputs[i].size(static_cast<std::int64_t>(d)) - form->shift) / form->scale;
        ir::Range& range = ranges.find(form->symbol)->second;
        if (i >= first) {
          const ir::Range called = history->range(i - first);
          range = {.low = std::max(range.low, called.low),
                   .high = std::min(range.high, called.high)};
        } else {
          range.high = std::min(range.high, std::max(reach_of(size), range.low));
        }
      }
    }
  }
  return ranges;
}

DynamicShapes dynamic_shapes(const CompileOptions& options,
                             const Tensors& inputs,
                             std::size_t integers,
                             const std::vector<const std::vector<TensorGuard>*>& seen,
                             const IntegerHistory* history) {
  const Tensors tensors(inputs.begin(), inputs.end() - static_cast<std::ptrdiff_t>(integers));
  DynamicShapes shapes =
      exporter::dynamic_shapes_of(options.dynamic_dims, tensors, options.input_names);
  shapes.input_sizes.resize(inputs.size());
  exporter::merge_equal_sizes(&shapes, inputs);
  SymbolMaker symbols(shapes, inputs);
  const std::size_t first = first_integer(inputs, history);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i >= first && !history->can_vary(i - first)) {
      continue;
    }
    for (std::size_t d = 0; inputs[i].defined() && d < inputs[i].sizes().size(); ++d) {
      std::vector<std::int64_t> sizes = {inputs[i].size(static_cast<std::int64_t>(d))};
      for (const std::vector<TensorGuard>* call : seen) {
        sizes.push_back((*call)[i].sizes[d]);
      }
      const bool has_changed =
          std::ranges::adjacent_find(sizes, std::not_equal_to()) != sizes.end();
      if ((options.automatic_dynamic && has_changed) || (options.dynamic && sizes[0] > 1)) {
        symbols.add(i, d, sizes);
      }
    }
  }
  for (const auto& [name, range] :
       clamp_to_traced_range(shapes.symbols, shapes.input_sizes, inputs, history)) {
    for (const std::int64_t size : sizes_to_confirm(range.high)) {
      shapes.confirm.push_back({{name, size}});
    }
  }
  shapes.trust_large_sizes = false;
  shapes.integers = integers;
  return shapes;
}

}  // namespace kiln
