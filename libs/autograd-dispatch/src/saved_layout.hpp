// The layout of what a forward saves for its backward.

#pragma once

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::autograd_dispatch {

/// `compiled`, with what it saves copied where its strides are not those of `forward`, which are
/// what the backward is compiled for. A compiler may have had reasons for others.
[[nodiscard]] CompiledGraph saving_as_traced(CompiledGraph compiled, const ir::Graph& forward);

}  // namespace kiln::autograd_dispatch
