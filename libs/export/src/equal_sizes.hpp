// Sizes at which symbols are equal, to each other or to a size that does not vary.

#pragma once

#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::exporter {

/// Samples at which a program that asks whether two sizes are equal shows it, as those of two
/// symbols differ otherwise. `example` has the sizes of all symbols in the example, and `fixed` is
/// its trace. A sample names only the symbols that it is about.
[[nodiscard]] std::vector<ir::Bindings> equal_sizes(const ir::Ranges& ranges,
                                                    const ir::Bindings& example,
                                                    const ir::Graph& fixed);

}  // namespace kiln::exporter
