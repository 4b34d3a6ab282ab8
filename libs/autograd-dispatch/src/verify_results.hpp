// Whether a compiled graph returns what its graph says.

#pragma once

#include <string>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::autograd_dispatch {

/// `compiled`, whose results are compared with the metadata that `graph` has for them: type, device
/// and sizes of each, and strides of what the caller gets. The first that differs is an `Error`
/// with `kInternal` that names it and `id`.
[[nodiscard]] CompiledGraph verifying_results(CompiledGraph compiled,
                                              const ir::Graph& graph,
                                              std::string id);

}  // namespace kiln::autograd_dispatch
