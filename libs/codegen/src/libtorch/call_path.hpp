// How a node without a kernel of ours is called: the generated shim where there is one, else the
// dispatcher, else the proxy executor that the host brings.

#pragma once

#include "kiln/ir/graph.hpp"
#include "libtorch/signature.hpp"

namespace kiln::codegen {

/// The ways down to libtorch, best first.
enum class CallPath {
  kShimOut,     ///< A C function that writes into memory that we planned.
  kShim,        ///< A C function that returns new tensors.
  kDispatcher,  ///< A call by name with boxed arguments.
  kProxy,       ///< A call by number into the host, which has read a JSON beside the library.
};

/// The best way to call `node`. Throws `Error` with `kUnsupported`, naming the operator and the
/// reason, if there is none.
[[nodiscard]] CallPath choose_call_path(const ir::Graph& graph, const ir::Node& node);

/// The types of `node`'s arguments and results, as recorded or as the shim has them.
[[nodiscard]] Signature signature_of(const ir::Node& node);

}  // namespace kiln::codegen
