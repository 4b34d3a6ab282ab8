// The same program on another device.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// `graph` with every tensor, and every argument that is a device, on a device of kind `device`.
///
/// Attention that a trace on the CPU has as the CPU's own operator becomes the one for which
/// libtorch chooses where it runs. Throws `Error` with `kUnsupported` if that operator's other
/// result is used, which the general one has not.
[[nodiscard]] Graph retarget(const Graph& graph, DeviceType device);

}  // namespace kiln::ir
