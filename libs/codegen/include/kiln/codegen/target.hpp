// What kernels are compiled for.

#pragma once

#include <string>
#include <vector>

namespace kiln::codegen {

/// A machine, as far as its kernels depend on it: instruction set, how to compile for it, and what
/// the libtorch there is slow at.
struct Target {
  std::string isa = "native";       ///< native | x86-64-v2 | x86-64-v3 | x86-64-v4 | neon | sve
  int vector_bytes = 16;            ///< Width of a vector register.
  std::string compiler_flags = {};  ///< "-march=native", "-mcpu=native", …
  /// What a machine must have to run it beyond its architecture's baseline, as /proc/cpuinfo names
  /// it.
  std::string cpu_features = {};
  /// Columns of a panel, two vectors, that constant float32 weights of products and convolutions
  /// are packed in; those are kernels then. 0: they are libtorch's.
  int panel_width = 0;
  /// Whether libtorch multiplies by way of OpenBLAS, which is slow at packing matrices and worse if
  /// they lie transposed; MKL is not. Products are kernels without packed weights, too, and
  /// the operands of the others are transposed beforehand.
  bool blas_packs_slowly = false;
};

/// Resolves "native" by what this machine has. Throws `Error` with `kInvalidArgument` for an
/// unknown name.
[[nodiscard]] Target resolve_target(const std::string& isa);

/// Names for `resolve_target` that say which machines of this architecture a model is for.
[[nodiscard]] std::vector<std::string> portable_isas();

/// The instruction sets of a list like "x86-64-v2,x86-64-v4". A model has its kernels for each of
/// them, and runs the last that its machine has; the first must be there. None has
/// panels unless all have the same.
[[nodiscard]] std::vector<Target> resolve_targets(const std::string& isas);

/// The kinds of GPUs that names like "sm_80" stand for, each once; "native" is that of the GPU in
/// this machine. Throws `Error`: `kInvalidArgument` for what is none, `kUnsupported` if there is no
/// GPU.
[[nodiscard]] std::vector<std::string> resolve_architectures(const std::vector<std::string>& names);

}  // namespace kiln::codegen
