// The reader of JSON: whatever the bytes are, a graph or an `Error`.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "round_trip.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::optional<kiln::ir::Graph> graph;
  try {
    graph = kiln::ir::from_json({reinterpret_cast<const char*>(data), size});
  } catch (const kiln::Error&) {
    return 0;
  }
  kiln::fuzz::check_round_trips(*graph);
  return 0;
}
