#include "suggest_relation.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kiln/base/error.hpp"
#include "sampled_program.hpp"

namespace kiln::exporter {
namespace {

// Linear expressions that are `size` where `symbol` is `value`, the simplest first.
std::vector<ir::Expr> lines_through(const std::string& symbol,
                                    std::int64_t value,
                                    std::int64_t size) {
  constexpr std::int64_t kSteepest = 4;
  std::vector<ir::Expr> lines;
  const auto add = [&](std::int64_t scale) {
    lines.push_back(ir::Expr::symbol(symbol) * ir::Expr(scale) + ir::Expr(size - scale * value));
  };
  if (value > 0 && size % value == 0 && size > 0) {
    add(size / value);
  }
  for (std::int64_t scale = 1; scale <= kSteepest; ++scale) {
    add(scale);
  }
  return lines;
}

class Adviser {
 public:
  Adviser(const TraceProgram& trace,
          const RunProgram& run,
          const ExportedProgram& fixed,
          const Tensors& example,
          std::span<const std::string> names)
      : trace_(trace), run_(run), fixed_(fixed), example_(example), names_(names) {}

  // Advice on `dim`, where `others` are what else was declared.
  [[nodiscard]] std::string advise(const DynamicDim& dim, const std::vector<DynamicDim>& others) {
    DynamicDim alone = dim;
    alone.name = "kiln_size";
    alone.min = 0;
    alone.max = INT64_MAX;
    DynamicShapes mine, shapes;
    try {
      mine = dynamic_shapes_of({&alone, 1}, example_, names_);
      shapes = dynamic_shapes_of(others, example_, names_);
    } catch (const Error&) {
      return {};
    }
    const auto declares = [](const std::vector<ir::Expr>& sizes) { return !sizes.empty(); };
    const auto input = static_cast<std::size_t>(std::ranges::find_if(mine.input_sizes, declares) -
                                                mine.input_sizes.begin());
    const std::int64_t rank = example_[input].dim();
    const std::int64_t at = dim.dim < 0 ? dim.dim + rank : dim.dim;
    const ir::Bindings values = sizes_in(shapes, example_);
    for (const auto& [symbol, value] : values) {
      if (takes(shapes, symbol)) {
        continue;  // The symbol does not depend on this dimension.
      }
      for (const ir::Expr& line : lines_through(symbol, value, example_[input].size(at))) {
        if (takes(with_size(shapes, input, at, line), symbol)) {
          return "; declare dimension " + std::to_string(at) + " of " + name_of(input) + " as '" +
                 line.to_string() + "'";
        }
      }
    }
    return {};
  }

 private:
  [[nodiscard]] std::string name_of(std::size_t input) const {
    return "input " + std::to_string(input) +
           (input < names_.size() ? " '" + names_[input] + "'" : "");
  }

  [[nodiscard]] DynamicShapes with_size(DynamicShapes shapes,
                                        std::size_t input,
                                        std::int64_t at,
                                        const ir::Expr& size) const {
    std::vector<ir::Expr>& sizes = shapes.input_sizes[input];
    if (sizes.empty()) {
      for (const std::int64_t known : example_[input].sizes()) {
        sizes.emplace_back(known);
      }
    }
    sizes[static_cast<std::size_t>(at)] = size;
    return shapes;
  }

  // Whether the program can be traced where `symbol` has other values than in the example.
  [[nodiscard]] bool takes(const DynamicShapes& shapes, const std::string& symbol) const {
    const SampledProgram program(trace_, run_, fixed_, example_, shapes);
    const std::int64_t value = program.hint().at(symbol);
    const ir::Range range = shapes.symbols.find(symbol)->second;
    bool any = false;
    for (const std::int64_t other : {value + 1, 2 * value + 1, value - 1}) {
      const ir::Bindings sizes = {{symbol, other}};
      if (other < std::max<std::int64_t>(range.low, 2) || other > range.high ||
          !program.is_affordable(sizes)) {
        continue;
      }
      std::string ignored;
      if (!program.trace_at(sizes, &ignored)) {
        return false;
      }
      any = true;
    }
    return any;
  }

  const TraceProgram& trace_;
  const RunProgram& run_;
  const ExportedProgram& fixed_;
  const Tensors& example_;
  std::span<const std::string> names_;
};

}  // namespace

std::string suggest_relation(const TraceProgram& trace,
                             const RunProgram& run,
                             const ExportedProgram& fixed,
                             const Tensors& example,
                             std::span<const DynamicDim> dims,
                             std::span<const std::string> names) {
  Adviser adviser(trace, run, fixed, example, names);
  // A later declaration is more likely to follow from an earlier one than the reverse.
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (dims[i].name == "auto") {
      continue;
    }
    std::vector<DynamicDim> others(dims.begin(), dims.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    if (std::string advice = adviser.advise(dims[i], others); !advice.empty()) {
      return advice;
    }
  }
  return {};
}

}  // namespace kiln::exporter
