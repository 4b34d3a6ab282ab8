// Runs graphs twice: through generated kernels, compiled and loaded, and through the loop program's
// evaluator.
//
// Many graphs are compiled as one library, because starting a compiler costs more than what it
// compiles here.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kiln/codegen/target.hpp"
#include "kiln/ir/graph.hpp"
#include "loop/evaluate.hpp"
#include "program/kernel_table.hpp"
#include "schedule/schedule.hpp"

namespace kiln::codegen::testing {

/// One graph to run on random inputs.
struct KernelCase {
  std::string text;         ///< In `.kir`.
  double tolerance = 1e-5;  ///< Relative, above an absolute floor of the same size.
  double low = -2,
         high = 2;  ///< The range of random floats; integers are from 0 to 3 below `integer_end`.
  std::int64_t integer_end = 4;
  bool special = false;      ///< NaN, infinities and zeros are among the floats.
  ir::Bindings values = {};  ///< Of its symbols, in this run. Kernels are planned without them.
};

/// A graph in `.kir`, from its lines.
[[nodiscard]] inline std::string graph(const std::string& inputs,
                                       const std::string& nodes,
                                       const std::string& outputs) {
  return "graph g {\n" + inputs + nodes + outputs + "}\n";
}

/// What came of it.
struct KernelResult {
  Schedule schedule;
  KernelTable table;
  ir::Graph graph;
  std::string mismatch;  ///< Empty if every output agrees; else the first that does not, in words.

  /// The distinct kernels.
  [[nodiscard]] const std::vector<KernelSource>& kernels() const { return table.kernels(); }
};

/// The kernels of `graph` for `target`.
[[nodiscard]] std::vector<KernelSource> kernels_of(const ir::Graph& graph, const Target& target);

/// Compiles the kernels of all `cases` into one library and runs each case. Throws `Error` if that
/// fails.
[[nodiscard]] std::vector<KernelResult> run_cases(const std::vector<KernelCase>& cases,
                                                  const Target& target = resolve_target("native"));

/// The same for CUDA kernels: on the GPU, if the environment variable KILN_TEST_GPU is set, and
/// else on the CPU, where their threads run one after the other, each as far as the next barrier.
[[nodiscard]] std::vector<KernelResult> run_cuda_cases(const std::vector<KernelCase>& cases);

/// How many of the schedule's steps are kernels.
[[nodiscard]] std::size_t kernel_count(const Schedule& schedule);

}  // namespace kiln::codegen::testing
