// Saved values that the forward overwrites.
//
// A tensor that is saved and then written to (an input with a write-back) holds the wrong numbers
// when the backward runs. Such a value is copied before the write, and the copy is saved.

#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "extract.hpp"
#include "joint.hpp"

namespace kiln::partitioner {

/// Node position -> values to copy just before that node. The position past the last node stands
/// for the end of the forward.
using Copies = std::map<std::size_t, std::vector<ir::ValueId>>;

/// Throws `Error` with `kUnsupported` if a value is wanted in two states at once.
[[nodiscard]] Copies copies_before_writes(const Joint& joint, const BackwardCone& cone);

/// The metadata of `aten.clone(value, memory_format=preserve)`, with a storage that is new to
/// `graph` if the original's is known.
[[nodiscard]] ir::TensorMeta copy_of(const ir::TensorMeta& meta, ir::Graph& graph);

}  // namespace kiln::partitioner
