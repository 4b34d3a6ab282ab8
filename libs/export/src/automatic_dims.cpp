#include <algorithm>
#include <string>
#include <vector>

#include "kiln/export/dynamic_trace.hpp"
#include "sampled_program.hpp"

namespace kiln::exporter {
namespace {

// Whether the program takes inputs in which these symbols alone are another number.
bool takes(const SampledProgram& program,
           const DynamicShapes& shapes,
           const std::vector<std::string>& symbols) {
  const std::int64_t size = program.hint().at(symbols.front());
  for (const std::int64_t other : {size + 1, size - 1, 2 * size}) {
    const bool is_allowed = std::ranges::all_of(symbols, [&](const std::string& symbol) {
      const ir::Range& range = shapes.symbols.find(symbol)->second;
      return other >= std::max<std::int64_t>(range.low, 2) && other <= range.high;
    });
    ir::Bindings sizes;
    for (const std::string& symbol : symbols) {
      sizes[symbol] = other;
    }
    std::string ignored;
    if (is_allowed && program.is_affordable(sizes) && program.trace_at(sizes, &ignored)) {
      return true;
    }
  }
  return false;
}

}  // namespace

void relate_automatic_dims(const TraceProgram& trace,
                           const RunProgram& run,
                           const ExportedProgram& fixed,
                           const Tensors& example,
                           DynamicShapes* shapes) {
  const std::set<std::string> automatic = shapes->automatic;
  for (const std::string& symbol : automatic) {
    if (!shapes->automatic.contains(symbol)) {
      continue;
    }
    const SampledProgram program(trace, run, fixed, example, *shapes);
    if (takes(program, *shapes, {symbol})) {
      continue;
    }
    // One of those of the same size, or all of them together.
    std::vector<std::vector<std::string>> groups;
    std::vector<std::string> all;
    for (const auto& [other, size] : program.hint()) {
      if (other != symbol && size == program.hint().at(symbol)) {
        groups.push_back({other});
        all.push_back(other);
      }
    }
    groups.push_back(all);
    for (std::vector<std::string>& group : groups) {
      group.push_back(symbol);
      if (group.size() < 2 || !takes(program, *shapes, group)) {
        continue;
      }
      // A symbol that was named keeps its name, and two of them are not made one.
      const auto named = std::ranges::find_if(
          group, [&](const std::string& name) { return !shapes->automatic.contains(name); });
      const std::string kept = named == group.end() ? group.front() : *named;
      for (const std::string& member : group) {
        if (member != kept && shapes->automatic.contains(member)) {
          merge_symbols(shapes, member, kept);
        }
      }
      break;
    }
  }
}

}  // namespace kiln::exporter
