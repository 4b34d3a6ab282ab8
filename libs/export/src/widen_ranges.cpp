#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "kiln/base/log.hpp"
#include "kiln/export/dynamic_trace.hpp"
#include "sampled_program.hpp"
#include "valid_ranges.hpp"

namespace kiln::exporter {

std::optional<ir::Ranges> widen_ranges(const TraceProgram& trace,
                                       const RunProgram& run,
                                       const ExportedProgram& dynamic,
                                       const Tensors& example,
                                       const DynamicShapes& shapes) {
  const SampledProgram program(trace, run, dynamic, example, shapes);
  std::string reason;
  if (!program.holds_at(dynamic.graph, program.hint(), &reason)) {
    KILN_LOG(kDebug, "export", "the range was not extended: " << reason);
    return std::nullopt;
  }
  ir::Ranges ranges = dynamic.graph.symbols();
  for (auto& [name, range] : ranges) {
    const std::int64_t size = program.hint().at(name);
    if (size < range.low) {
      if (size < shapes.symbols.find(name)->second.low) {
        return std::nullopt;  // The range ends there because the program does something else.
      }
      range.low = size;
    }
    if (size > range.high) {
      // In steps: there may be another path between two sizes that take the same one.
      const std::int64_t end =
          last_affordable(program, name, program.hint(), shapes.symbols.find(name)->second.high);
      ir::Bindings inside = program.hint();
      for (inside[name] = range.high; inside[name] < end;) {
        const std::int64_t next = std::min(end, inside[name] + inside[name] / 2 + 1);
        const std::int64_t reached =
            next == size ? next  // Where it holds, as was seen above.
                         : end_of_range(program, dynamic.graph, name, inside, next, &reason);
        inside[name] = reached;
        if (reached < next) {
          break;
        }
      }
      range.high = inside[name];
      if (range.high < size) {
        return std::nullopt;
      }
    }
  }
  return ranges;
}

}  // namespace kiln::exporter
