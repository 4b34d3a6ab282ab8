// KILN_DUMP=DIR: every graph that is compiled leaves a folder there from which its compile can be
// looked at, run again and searched for a wrong kernel (`kiln bisect`).

#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "kiln/ir/graph.hpp"
#include "kiln/jit/options.hpp"

namespace kiln {

/// Whether KILN_DUMP asks for dumps. The cache is left aside then: what it has was generated
/// before.
[[nodiscard]] bool dump_wanted();

/// Leaves the text of `graph`, which is divided before it is compiled, if dumps are wanted:
/// `program.kir` in a folder like those of `Dump`.
void dump_text(const ir::Graph& graph);

/// One graph's folder: `program.kir`, `inputs.pt`, `source/` (what `Options::keep_source` of the
/// code generator leaves), `report.json`, and `repro.cpp` with its `CMakeLists.txt`.
class Dump {
 public:
  /// Begins a dump of `graph`, or gives nothing if none is wanted. The folder is named by the
  /// graph's name and content, so the same graph has one folder however often it is compiled.
  [[nodiscard]] static std::optional<Dump> begin(const ir::Graph& graph);

  /// Where generated source is to stay.
  [[nodiscard]] std::filesystem::path source() const { return folder_ / "source"; }

  /// Writes what the graph is run on, one tensor for each of its inputs.
  void write_inputs(const std::vector<at::Tensor>& inputs) const;

  /// Writes what compiling the graph gave: times, kernels, calls of libtorch.
  void write_report(const GraphReport& report) const;

  /// Copies what was generated to `folder` too, if there is one.
  void copy_source_to(const std::filesystem::path& folder) const;

 private:
  explicit Dump(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;
};

}  // namespace kiln
