// What messages call the inputs of a function.

#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace kiln {

struct InputNames {
  std::vector<std::string> tensors = {};  ///< Of the first inputs, as the user calls them.
  /// From there on, inputs are not tensors for the user, but integers that are passed as their last
  /// sizes.
  std::size_t first_integer = std::numeric_limits<std::size_t>::max();

  [[nodiscard]] bool is_integer(std::size_t position) const { return position >= first_integer; }

  /// "input 0 'x'", "input 0" if it has no name, or "integer 0".
  [[nodiscard]] std::string input(std::size_t position) const {
    if (is_integer(position)) {
      return "integer " + std::to_string(position - first_integer);
    }
    return "input " + std::to_string(position) +
           (position < tensors.size() ? " '" + tensors[position] + "'" : "");
  }

  /// "input 0 'x', dimension 1", or "integer 0".
  [[nodiscard]] std::string size(std::size_t position, std::size_t dimension) const {
    return input(position) +
           (is_integer(position) ? "" : ", dimension " + std::to_string(dimension));
  }
};

}  // namespace kiln
