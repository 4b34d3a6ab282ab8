// Flattens structured values into tensors, constants and a spec of how they are nested.

#pragma once

#include <string>
#include <vector>

#include "kiln/export/exported_program.hpp"

namespace c10 {
struct IValue;
}

namespace kiln::exporter {

/// A flattened value.
struct FlatValue {
  Tensors tensors;           ///< Its leaves.
  std::vector<Leaf> leaves;  ///< In the order of the spec's.
  std::string spec;          ///< JSON, as a part of what PyTorch's `treespec_dumps` writes.
};

/// Flattens `value`.
///
/// Throws `Error` with `kUnsupported` for anything that is not a tensor, a finite number, a string,
/// None, or a tuple, list or dictionary of such.
[[nodiscard]] FlatValue flatten(const c10::IValue& value);

}  // namespace kiln::exporter
