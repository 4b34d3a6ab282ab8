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
    // With one symbol the corner is the lower end.
    return graph_.symbols().size() == 1 || check_corner(&reason) ? std::nullopt
                                                                 : std::optional(reason);
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
    result.low = end_of_range(program_, graph_, name, *least, range.low, &reason);
    if (result.low < 1) {  // A program that takes no rows may still treat one row in its own way.
      ir::Bindings one = *least;
      one[name] = 1;
      result.low = program_.holds_at(graph_, one, &reason) ? result.low : 2;
    }
    result.high = end_of_range(program_, graph_, name, *largest, range.high, &reason);
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

  const SampledProgram& program_;
  const std::vector<ir::Bindings>& used_;
  ir::Graph& graph_;
  std::vector<std::string>* remarks_;
};

ir::Bindings with_size(ir::Bindings sizes, const std::string& name, std::int64_t size) {
  sizes[name] = size;
  return sizes;
}

// Where `is_good` ends, between `good`, where it holds, and `bad`, where it does not.
template <class Predicate>
std::int64_t last_good(std::int64_t good, std::int64_t bad, const Predicate& is_good) {
  while (std::abs(good - bad) > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (is_good(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace

std::int64_t last_affordable(const SampledProgram& program,
                             const std::string& name,
                             const ir::Bindings& inside,
                             std::int64_t end) {
  const auto is_affordable = [&](std::int64_t size) {
    return program.is_affordable(with_size(inside, name, size));
  };
  return is_affordable(end) ? end : last_good(inside.at(name), end, is_affordable);
}

// Looks at the end itself first; if the graph does not hold there, by bisection between there and
// `inside`, where it does.
std::int64_t end_of_range(const SampledProgram& program,
                          const ir::Graph& graph,
                          const std::string& name,
                          const ir::Bindings& inside,
                          std::int64_t end,
                          std::string* reason) {
  const auto holds = [&](std::int64_t size) {
    return program.holds_at(graph, with_size(inside, name, size), reason);
  };
  const std::int64_t good = inside.at(name);
  if (good != end && !program.is_affordable(with_size(inside, name, end))) {
    if (program.trusts_large_sizes()) {
      return end;
    }
    *reason = "larger inputs are not traced";
    end = last_affordable(program, name, inside, end);
  }
  return good == end || holds(end) ? end : last_good(good, end, holds);
}

std::optional<std::string> narrow_ranges(const SampledProgram& program,
                                         const std::vector<ir::Bindings>& used,
                                         ir::Graph& graph,
                                         std::vector<std::string>* remarks) {
  return RangeFinder(program, used, graph, remarks).run();
}

}  // namespace kiln::exporter
