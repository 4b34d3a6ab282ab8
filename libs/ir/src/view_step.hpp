// One view operator as functionalization sees it: how it is replayed on another base, and undone.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kiln/ir/graph.hpp"
#include "kiln/ir/memory.hpp"

namespace kiln::ir {

/// A view of argument 0 by its meaning, whichever operator it was.
struct ViewStep {
  enum class Kind {
    kIdentity,     ///< alias, detach
    kReshape,      ///< view, squeeze, unsqueeze, flatten, …
    kPermute,      ///< t, transpose, permute, movedim
    kSelect,       ///< select; one result of unbind
    kSlice,        ///< slice, narrow; one result of split
    kExpand,       ///< expand
    kDiagonal,     ///< diagonal
    kReinterpret,  ///< view as another dtype
    kReal,         ///< view_as_real
    kComplex,      ///< view_as_complex
    kConjugate,    ///< _conj
    kNegative,     ///< _neg_view
    kStrided,      ///< Any other: by its geometry alone, from the root of the memory.
  };
  Kind kind = Kind::kStrided;
  std::string target = {};  ///< The functional operator of one result that replays it.
  std::vector<Argument> arguments =
      {};  ///< After the base; values in them are the recorded graph's.
  std::vector<std::size_t> order =
      {};                     ///< kPermute: dimension i of the view is order[i] of the base.
  std::size_t dimension = 0;  ///< kSelect, kSlice
  Expr start = 0;             ///< kSelect, kSlice: counted from the front; kDiagonal: its offset.
  Expr step = 1;              ///< kSlice
  std::pair<std::size_t, std::size_t> diagonal = {0, 1};  ///< kDiagonal: the two dimensions.
};

/// The view that result `result` of `node` is of its argument `argument`.
[[nodiscard]] ViewStep view_step(const Graph& graph,
                                 const Node& node,
                                 std::uint32_t result,
                                 std::uint32_t argument);

/// The metadata of `step` applied to `base`, where `recorded` is what the view was when it ran on
/// `recorded_base`. Nothing if the base must be copied to another layout first.
[[nodiscard]] std::optional<TensorMeta> replay_meta(const ViewStep& step,
                                                    const TensorMeta& recorded,
                                                    const TensorMeta& recorded_base,
                                                    const TensorMeta& base);

/// "aten.t.default" for "aten.t_.default".
[[nodiscard]] std::string without_underscore(const std::string& target);
/// "add_" for "aten.add_.Tensor".
[[nodiscard]] std::string_view operator_name(const std::string& target);

}  // namespace kiln::ir
