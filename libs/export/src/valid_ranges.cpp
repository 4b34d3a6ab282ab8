#include "valid_ranges.hpp"

#include <algorithm>
#include <cstdlib>

#include "size_text.hpp"

namespace kiln::exporter {
namespace {

class RangeFinder {
 public:
  RangeFinder(const SampledProgram& program,
              const std::vector<ir::Bindings>& used,
              ir::Graph& graph,
              std::vector<std::string>* remarks)
      : program_(program), used_(used), graph_(graph), remarks_(remarks) {}

  std::optional<std::string> run() {
    for (auto& [name, range] : graph_.symbols()) {
      range = narrowed(name, range);
    }
    std::string reason;
    return check_corner(&reason) ? std::nullopt : std::optional(reason);
  }

 private:
  // The part of a symbol's range, from the sizes that were used outwards, where the graph holds.
  ir::Range narrowed(const std::string& name, const ir::Range& range) {
    const auto by_size = [&](const ir::Bindings& a, const ir::Bindings& b) {
      return a.at(name) < b.at(name);
    };
    const auto [least, largest] = std::ranges::minmax_element(used_, by_size);
    ir::Range result = range;
    std::string reason;
    result.low = end_of_range(name, *least, range.low, &reason);
    if (result.low < 1) {  // A program that takes no rows may still treat one row in its own way.
      ir::Bindings one = *least;
      one[name] = 1;
      result.low = program_.holds_at(graph_, one, &reason) ? result.low : 2;
    }
    result.high = end_of_range(name, *largest, range.high, &reason);
    if (result != range) {
      remarks_->push_back("'" + name + "' in " + text_of(result) + ", not " + text_of(range) +
                          ": " + reason);
    }
    return result;
  }

  // Sizes of 1 are where programs differ, and two of them together may where each alone does not.
  bool check_corner(std::string* reason) {
    const auto holds_at_lows = [&] {
      ir::Bindings lows;
      for (const auto& [name, range] : graph_.symbols()) {
        lows[name] = range.low;
      }
      return program_.holds_at(graph_, lows, reason);
    };
    for (auto& [name, range] : graph_.symbols()) {
      if (holds_at_lows()) {
        return true;
      }
      if (range.low < 2 && range.high >= 2) {
        remarks_->push_back("'" + name + "' in " + text_of(ir::Range{2, range.high}) + ", not " +
                            text_of(range) + ": " + *reason);
        range.low = 2;
      }
    }
    return holds_at_lows();
  }

  // Looks at the end itself first; if the graph does not hold there, by bisection between there and
  // `inside`, where it does. An end that is too large to be traced is believed.
  std::int64_t end_of_range(const std::string& name,
                            const ir::Bindings& inside,
                            std::int64_t end,
                            std::string* reason) const {
    const auto at = [&](std::int64_t size) {
      ir::Bindings sizes = inside;
      sizes[name] = size;
      return sizes;
    };
    std::int64_t good = inside.at(name);
    if (good == end || !program_.is_affordable(at(end)) ||
        program_.holds_at(graph_, at(end), reason)) {
      return end;
    }
    std::int64_t bad = end;
    while (std::abs(good - bad) > 1) {
      const std::int64_t middle = good + (bad - good) / 2;
      (program_.holds_at(graph_, at(middle), reason) ? good : bad) = middle;
    }
    return good;
  }

  const SampledProgram& program_;
  const std::vector<ir::Bindings>& used_;
  ir::Graph& graph_;
  std::vector<std::string>* remarks_;
};

}  // namespace

std::optional<std::string> narrow_ranges(const SampledProgram& program,
                                         const std::vector<ir::Bindings>& used,
                                         ir::Graph& graph,
                                         std::vector<std::string>* remarks) {
  return RangeFinder(program, used, graph, remarks).run();
}

}  // namespace kiln::exporter
