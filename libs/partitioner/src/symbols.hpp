// The symbols that a backward mentions and the integers that bind them.

#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "joint.hpp"

namespace kiln::partitioner {

using Symbols = std::set<std::string, std::less<>>;

/// Adds every symbol that `meta` or the arguments of `node` mention.
void collect_symbols(const ir::ValueMeta& meta, Symbols& symbols);
void collect_symbols(const ir::Node& node, Symbols& symbols);

/// An integer that the forward hands to the backward: a value of the joint graph, or the size of
/// `tensor` in `dimension` where no value has it.
struct SavedInteger {
  ir::ValueId value = {};
  ir::ValueId tensor = {};
  std::int64_t dimension = 0;
  ir::Expr expr = 0;
};

/// `integers` (values of `joint`) and whatever else binds `symbols`: bare symbols first.
///
/// Throws `Error` with `kInvalidArgument` for a symbol that no input binds.
[[nodiscard]] std::vector<SavedInteger> bind_symbols(const Joint& joint,
                                                     const std::vector<ir::ValueId>& integers,
                                                     const Symbols& symbols);

}  // namespace kiln::partitioner
