// The same program on another device.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// `graph` with every tensor, and every argument that is a device, on a device of kind `device`.
///
/// On CUDA, attention by an operator of one device or library alone becomes the one for which
/// libtorch chooses when it runs. Throws `Error` with `kUnsupported` if one of that operator's
/// other results is used, which the general one has not.
[[nodiscard]] Graph retarget(const Graph& graph, DeviceType device);

}  // namespace kiln::ir
