// The device that a graph runs on.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln {

/// Where a graph runs, and what has to be brought there.
struct GraphDevice {
  std::string name;  ///< "cuda:0"; empty for the CPU.
  /// Inputs that are numbers on the CPU, as eager takes them beside tensors of a GPU.
  std::vector<std::uint32_t> numbers;
};

/// Throws `Error` with `kUnsupported`, naming a value on each of two devices, if `graph` needs
/// several: results on the CPU of what a GPU computes among them.
[[nodiscard]] GraphDevice device_of_graph(const ir::Graph& graph);

}  // namespace kiln
