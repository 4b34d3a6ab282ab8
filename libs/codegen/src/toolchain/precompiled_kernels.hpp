// Kernels that are compiled with Kiln and not with a model: those whose text knows no sizes.
//
// They lie beside the container's archive, each under the digest of its text, its flags, its
// machine and its compiler (`object_key`). Where one of these is another, nothing is found there,
// and the text is compiled as any.

#pragma once

#include <filesystem>
#include <span>

#include "toolchain/build.hpp"
#include "toolchain/toolchain.hpp"

namespace kiln::codegen {

/// Where they lie if `archive` is the container's.
[[nodiscard]] std::filesystem::path precompiled_kernels_beside(
    const std::filesystem::path& archive);

/// Compiles into `directory` those of `units` that are not there yet, and removes what is there and
/// no longer wanted. Gives how many were compiled. Throws `Error` with `kIo`.
int precompile_kernels(const std::filesystem::path& directory,
                       std::span<const Unit> units,
                       const Compiler& compiler);

}  // namespace kiln::codegen
