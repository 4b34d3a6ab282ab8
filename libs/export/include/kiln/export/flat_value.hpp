// Structured values taken apart into tensors, constants, and how they were nested.

#pragma once

#include <string>
#include <vector>

#include "kiln/export/exported_program.hpp"

namespace c10 {
struct IValue;
}

namespace kiln::exporter {

/// A value, taken apart.
struct FlatValue {
  Tensors tensors;           ///< Its leaves.
  std::vector<Leaf> leaves;  ///< In the order of the spec's.
  std::string spec;          ///< JSON, as a part of what PyTorch's `treespec_dumps` writes.
};

/// Takes `value` apart.
///
/// Throws `Error` with `kUnsupported` for what is neither a tensor, a finite number, a string, None
/// nor a tuple, list or dictionary of such.
[[nodiscard]] FlatValue flatten(const c10::IValue& value);

}  // namespace kiln::exporter
