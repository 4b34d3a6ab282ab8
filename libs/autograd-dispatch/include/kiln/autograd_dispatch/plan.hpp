// How a call of a compiled function is put together from its compiled graphs: plain data, so that a
// cache can keep it.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::autograd_dispatch {

/// Where one of the function's outputs comes from.
struct OutputPlan {
  enum class Kind {
    kNone,             ///< Undefined.
    kComputed,         ///< Result `index` of the compiled forward.
    kInput,            ///< Input `index` itself, the same object.
    kAliasOfInput,     ///< A view of input `index`, made anew after mutations were applied.
    kAliasOfComputed,  ///< A view of result `index`, which other outputs see too.
    kSameAs,           ///< The function's output `index` itself.
  };
  Kind kind = Kind::kComputed;
  std::uint32_t index = 0;
  bool requires_grad = false;
  /// For aliases: the views that lead from the base to the output, or, where they cannot be
  /// replayed, nothing: then the geometry is set directly.
  std::optional<ir::Graph> views = {};
  std::vector<std::int64_t> sizes = {}, strides = {};
  std::int64_t offset = 0;
};

/// The runtime's part of a compiled function. Inputs count the captured tensors after the
/// function's own.
struct Plan {
  std::uint32_t inputs = 0;
  std::vector<OutputPlan> outputs;
  std::uint32_t computed =
      0;  ///< Results of the compiled forward that are not saved for the backward.
  /// For each tangent of the backward: the computed result it belongs to.
  std::vector<std::uint32_t> tangents;
  /// For each gradient the backward returns: the input it belongs to.
  std::vector<std::uint32_t> gradients;
};

}  // namespace kiln::autograd_dispatch
