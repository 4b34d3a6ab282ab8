#include "equal_sizes.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <set>

namespace kiln::exporter {
namespace {

// An ordinary size for all symbols whose ranges have it: the least that is in none's way.
ir::Bindings one_size(const ir::Ranges& ranges) {
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  std::int64_t low = 0;
  for (const auto& [name, range] : ranges) {
    high = std::min(high, range.high);
    low = std::max(low, range.low);
  }
  constexpr std::int64_t kOrdinary = 7;
  const std::int64_t size = std::max(low, std::min(kOrdinary, high));
  ir::Bindings sizes;
  for (const auto& [name, range] : ranges) {
    if (size <= range.high) {
      sizes[name] = size;
    }
  }
  return sizes;
}

// The example's sizes of what the user passes, and of symbols that do not vary.
std::set<std::int64_t> fixed_sizes(const ir::Ranges& ranges,
                                   const ir::Bindings& example,
                                   const ir::Graph& fixed) {
  std::set<std::int64_t> sizes;
  for (const auto& [name, size] : example) {
    if (!ranges.contains(name)) {
      sizes.insert(size);
    }
  }
  for (const ir::Input& input : fixed.inputs()) {
    const ir::Value& value = fixed.value(input.value);
    if (input.kind == ir::InputKind::kUser && value.is_tensor()) {
      for (const ir::Expr& size : value.tensor().sizes) {
        sizes.insert(size.constant().value_or(0));
      }
    }
  }
  sizes.erase(sizes.begin(), sizes.lower_bound(2));  // The ends of ranges.
  return sizes;
}

}  // namespace

std::vector<ir::Bindings> equal_sizes(const ir::Ranges& ranges,
                                      const ir::Bindings& example,
                                      const ir::Graph& fixed) {
  std::vector<ir::Bindings> equal;
  if (ranges.size() > 1) {
    equal.push_back(one_size(ranges));
    for (auto first = ranges.begin(); first != ranges.end(); ++first) {
      for (auto second = std::next(first); second != ranges.end(); ++second) {
        // Not where all together show it.
        if (!equal.front().contains(first->first) || !equal.front().contains(second->first)) {
          equal.push_back(one_size({*first, *second}));
        }
      }
    }
  }
  // Sizes that do not vary have the example's values.
  for (const std::int64_t size : fixed_sizes(ranges, example, fixed)) {
    for (const auto& [name, range] : ranges) {
      equal.push_back({{name, size}});
    }
  }
  return equal;
}

}  // namespace kiln::exporter
