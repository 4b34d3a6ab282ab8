// The hand-written kernels of the CPU: packed GEMM, convolutions, attention.
//
// Shapes and strides are run-time arguments, so one source serves every model.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "kiln/codegen/target.hpp"

namespace kiln::codegen {

/// The source of `call`'s kernel for `target`, as `KernelSource::source` is.
[[nodiscard]] std::string library_source(const LibraryCall& call, const Target& target);

/// The names of its run-time arguments.
[[nodiscard]] std::span<const LibraryField> argument_fields_of(const LibraryCall& call);

/// Every source that a model for `target` may ask for.
[[nodiscard]] std::vector<std::string> library_sources(const Target& target);

}  // namespace kiln::codegen
