// Which of many things to keep when not all of them fit.

#pragma once

#include <span>
#include <vector>

namespace kiln::partitioner {

struct Item {
  double size = 0;
  double worth = 0;
};

/// By item: whether it is in the most worthy selection whose sizes add up to at most `capacity`.
///
/// Optimal for sizes rounded up to a thousandth of the capacity, by dynamic programming, up to
/// `most_exact` items; beyond that the worthiest per size are taken first.
[[nodiscard]] std::vector<bool> fill_knapsack(std::span<const Item> items,
                                              double capacity,
                                              std::size_t most_exact = 2000);

}  // namespace kiln::partitioner
