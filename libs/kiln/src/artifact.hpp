// What a compiled program becomes: a model library with its weights, or a package.

#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kiln/codegen/compile.hpp"
#include "kiln/container_runtime/package.hpp"
#include "kiln/jit/model_library.hpp"

namespace kiln {

/// The library, its weights, and what it takes along.
struct Artifact {
  ModelLibrary library;
  std::vector<codegen::ConstantData> constants;
  std::string sample_inputs;
  std::string specialisations;  ///< A line for each.
  std::string sizes;            ///< Those that vary (`declared_sizes`).
  std::string device;           ///< "cpu" or "cuda"; empty is the CPU.
};

/// Weights on their way into a package while the compiler works: half a gigabyte takes as long.
class StreamingWeightsWriter {
 public:
  /// Begins with it, if `out` is a package and there is enough to write.
  StreamingWeightsWriter(const std::filesystem::path& out,
                         std::span<const codegen::ConstantData> constants);

  /// False if nothing was begun, or if the library turned out too large.
  bool finish(container_runtime::PackageContents contents,
              std::span<const codegen::ConstantData> constants,
              std::span<const codegen::ConstantData> folded);

 private:
  codegen::WeightsImage image_;
  std::optional<container_runtime::PackageWriter> package_;
};

/// Writes `artifact` to `out`, a `.so` or a `.pt2`, which then is whole or as it was before.
void write_artifact(const Artifact& artifact,
                    const std::filesystem::path& out,
                    std::size_t instances,
                    StreamingWeightsWriter* ahead = nullptr);

}  // namespace kiln
