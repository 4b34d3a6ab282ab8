// What kernels are compiled for.

#pragma once

#include <string>
#include <vector>

namespace kiln::codegen {

/// An instruction set, as far as the emitter must know it.
struct Target {
  std::string isa = "native";  ///< native | x86-64-v2 | x86-64-v3 | x86-64-v4 | neon | sve
  int vector_bytes = 16;       ///< Width of a vector register.
  int threads = 0;             ///< Threads that loops may use; 0: as many as the run is given.
  std::string compiler_flags;  ///< "-march=native", "-mcpu=native", …
  /// What a machine must have to run it beyond its architecture's baseline, as /proc/cpuinfo names
  /// it.
  std::string cpu_features = {};
  /// Whether libtorch is slow at multiplying by matrices that lie transposed: with OpenBLAS, not
  /// with MKL. They are turned or packed beforehand, or the products are kernels.
  bool turns_operands = false;
  bool winograd = true;  ///< Whether convolutions may be computed in tiles (`Options::winograd`).
};

/// Resolves "native" by what this machine has. Throws `Error` with `kInvalidArgument` for an
/// unknown name.
[[nodiscard]] Target resolve_target(const std::string& isa);

/// The instruction sets of a list like "x86-64-v2,x86-64-v4". A model has its kernels for each of
/// them, and runs the last that its machine has; the first must be there.
[[nodiscard]] std::vector<Target> resolve_targets(const std::string& isas);

}  // namespace kiln::codegen
