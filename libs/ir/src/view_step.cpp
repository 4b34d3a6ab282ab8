#include "view_step.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "geometry.hpp"

namespace kiln::ir {
namespace {

using Kind = ViewStep::Kind;

const std::unordered_map<std::string_view, Kind>& kinds() {
  static const std::unordered_map<std::string_view, Kind> table = {
      {"alias", Kind::kIdentity},
      {"detach", Kind::kIdentity},
      {"lift_fresh", Kind::kIdentity},
      {"view_as", Kind::kReshape},
      {"view", Kind::kReshape},
      {"_unsafe_view", Kind::kReshape},
      {"reshape", Kind::kReshape},
      {"_reshape_alias", Kind::kReshape},
      {"flatten", Kind::kReshape},
      {"unflatten", Kind::kReshape},
      {"squeeze", Kind::kReshape},
      {"unsqueeze", Kind::kReshape},
      {"t", Kind::kPermute},
      {"transpose", Kind::kPermute},
      {"permute", Kind::kPermute},
      {"swapaxes", Kind::kPermute},
      {"swapdims", Kind::kPermute},
      {"numpy_T", Kind::kPermute},
      {"select", Kind::kSelect},
      {"unbind", Kind::kSelect},
      {"slice", Kind::kSlice},
      {"split", Kind::kSlice},
      {"split_with_sizes", Kind::kSlice},
      {"chunk", Kind::kSlice},
      {"expand", Kind::kExpand},
      {"diagonal", Kind::kDiagonal},
      {"view_as_real", Kind::kReal},
      {"view_as_complex", Kind::kComplex},
      {"_conj", Kind::kConjugate},
      {"_neg_view", Kind::kNegative},
  };
  return table;
}

/// An integer argument: a literal, or a symbolic integer's value.
std::optional<Expr> integer(const Graph& graph, const Node& node, std::size_t position) {
  if (position >= node.arguments.size()) {
    return std::nullopt;
  }
  if (const auto* expr = std::get_if<Expr>(&node.arguments[position])) {
    return *expr;
  }
  if (const auto* value = std::get_if<ValueId>(&node.arguments[position])) {
    if (value->valid()) {
      if (const auto* meta = std::get_if<SymIntMeta>(&graph.value(*value).meta)) {
        return meta->expr;
      }
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> dimension_of(const Graph& graph,
                                        const Node& node,
                                        std::size_t position,
                                        std::size_t rank,
                                        std::int64_t otherwise = 0) {
  const std::int64_t dimension =
      integer(graph, node, position).value_or(Expr(otherwise)).constant().value_or(otherwise);
  const std::int64_t wrapped =
      dimension < 0 ? dimension + static_cast<std::int64_t>(rank) : dimension;
  if (wrapped < 0 || wrapped >= static_cast<std::int64_t>(rank)) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(wrapped);
}

/// A position counted from the end, counted from the front.
Expr from_front(const Expr& position, const Expr& size) {
  return position.constant().value_or(0) < 0 ? position + size : position;
}

bool fill_permute(
    const Graph& graph, const Node& node, std::string_view name, std::size_t rank, ViewStep* step) {
  step->order.resize(rank);
  std::iota(step->order.begin(), step->order.end(), std::size_t{0});
  if (name == "t" || name == "numpy_T") {
    std::reverse(step->order.begin(), step->order.end());
    return true;
  }
  if (name == "permute") {
    const auto* dims =
        node.arguments.size() < 2 ? nullptr : std::get_if<std::vector<Expr>>(&node.arguments[1]);
    if (dims == nullptr || dims->size() != rank) {
      return false;
    }
    for (std::size_t i = 0; i < rank; ++i) {
      const std::int64_t dim = (*dims)[i].constant().value_or(0);
      step->order[i] =
          static_cast<std::size_t>(dim < 0 ? dim + static_cast<std::int64_t>(rank) : dim);
      if (step->order[i] >= rank) {
        return false;
      }
    }
    return true;
  }
  if (rank == 0) {
    return true;
  }
  const auto first = dimension_of(graph, node, 1, rank);
  const auto second = dimension_of(graph, node, 2, rank);
  if (!first || !second) {
    return false;
  }
  std::swap(step->order[*first], step->order[*second]);
  return true;
}

bool fill_select(const Graph& graph,
                 const Node& node,
                 bool unbind,
                 std::uint32_t result,
                 const TensorMeta& base,
                 ViewStep* step) {
  const auto dimension = dimension_of(graph, node, 1, base.sizes.size());
  const std::optional<Expr> index = unbind ? std::optional(Expr(result)) : integer(graph, node, 2);
  if (!dimension || !index) {
    return false;
  }
  step->dimension = *dimension;
  step->start = from_front(*index, base.sizes[*dimension]);
  if (unbind) {
    step->target = "aten.select.int";
    step->arguments = {Expr(static_cast<std::int64_t>(*dimension)), step->start};
  }
  return true;
}

bool fill_slice(const Graph& graph, const Node& node, const TensorMeta& base, ViewStep* step) {
  const auto dimension = dimension_of(graph, node, 1, base.sizes.size());
  if (!dimension) {
    return false;
  }
  const Expr& size = base.sizes[*dimension];
  step->dimension = *dimension;
  step->start = from_front(integer(graph, node, 2).value_or(Expr(0)), size);
  if (step->start.is_constant() && size.is_constant()) {
    step->start = min(max(step->start, Expr(0)), size);
  }
  step->step = integer(graph, node, 4).value_or(Expr(1));
  return true;
}

bool fill_diagonal(const Graph& graph, const Node& node, const TensorMeta& base, ViewStep* step) {
  const auto first = dimension_of(graph, node, 2, base.sizes.size());
  const auto second = dimension_of(graph, node, 3, base.sizes.size(), 1);
  if (!first || !second) {
    return false;
  }
  step->start = integer(graph, node, 1).value_or(Expr(0));
  step->diagonal = {*first, *second};
  return true;
}

/// One chunk of a split, as a slice: the sizes of those before it give its start.
bool fill_piece(const Graph& graph,
                const Node& node,
                std::uint32_t result,
                const TensorMeta& base,
                ViewStep* step) {
  const auto dimension = dimension_of(graph, node, 2, base.sizes.size());
  if (!dimension) {
    return false;
  }
  Expr start = 0;
  for (std::uint32_t i = 0; i < result; ++i) {
    if (!node.results[i].valid()) {
      return false;
    }
    start = start + graph.tensor(node.results[i]).sizes[*dimension];
  }
  const Expr end = start + graph.tensor(node.results[result]).sizes[*dimension];
  step->dimension = *dimension;
  step->start = start;
  step->target = "aten.slice.Tensor";
  step->arguments = {Expr(static_cast<std::int64_t>(*dimension)), start, end, Expr(1)};
  return true;
}

}  // namespace

std::string_view operator_name(const std::string& target) {
  const std::string_view text = target;
  const std::size_t first = text.find('.');
  if (first == std::string_view::npos) {
    return text;
  }
  return text.substr(first + 1, text.find('.', first + 1) - first - 1);
}

std::string without_underscore(const std::string& target) {
  const std::string_view name = operator_name(target);
  if (name.size() < 2 || name.back() != '_') {
    return target;
  }
  std::string result = target;
  result.erase(static_cast<std::size_t>(name.data() - target.data()) + name.size() - 1, 1);
  return result;
}

bool is_in_place_view(const Node& node) {
  static const std::unordered_set<std::string_view> names = {"squeeze_",
                                                             "unsqueeze_",
                                                             "t_",
                                                             "transpose_",
                                                             "as_strided_",
                                                             "swapaxes_",
                                                             "swapdims_",
                                                             "detach_",
                                                             "resize_",
                                                             "resize_as_",
                                                             "set_"};
  return node.target.starts_with("aten.") && names.contains(operator_name(node.target));
}

ViewStep view_step(const Graph& graph,
                   const Node& node,
                   std::uint32_t result,
                   std::uint32_t argument) {
  ViewStep step;
  const auto* base_id = std::get_if<ValueId>(&node.arguments[argument]);
  if (argument != 0 || base_id == nullptr || !node.target.starts_with("aten.")) {
    return step;
  }
  const std::string target = is_in_place_view(node) ? without_underscore(node.target) : node.target;
  const std::string_view name = operator_name(target);
  const auto found = kinds().find(name);
  if (found == kinds().end()) {
    return step;
  }
  const TensorMeta& base = graph.tensor(*base_id);
  const TensorMeta& view = graph.tensor(node.results[result]);
  step.target = name == "transpose" ? "aten.transpose.int" : target;
  step.arguments.assign(node.arguments.begin() + 1, node.arguments.end());
  bool understood = true;
  switch (found->second) {
    case Kind::kPermute:
      understood = fill_permute(graph, node, name, base.sizes.size(), &step);
      break;
    case Kind::kSelect:
      understood = fill_select(graph, node, name == "unbind", result, base, &step);
      break;
    case Kind::kSlice:
      understood = name == "slice" ? fill_slice(graph, node, base, &step)
                                   : fill_piece(graph, node, result, base, &step);
      break;
    case Kind::kDiagonal: understood = fill_diagonal(graph, node, base, &step); break;
    default: break;
  }
  if (understood) {
    step.kind = found->second == Kind::kReshape && view.dtype != base.dtype ? Kind::kReinterpret
                                                                            : found->second;
  }
  if (step.kind == Kind::kReshape && name != "squeeze" && name != "unsqueeze") {
    // Composite operators and -1 are resolved: the recorded sizes are what they came to.
    step.target = "aten.view.default";
    step.arguments = {view.sizes};
  }
  return step;
}

std::optional<TensorMeta> replay_meta(const ViewStep& step,
                                      const TensorMeta& recorded,
                                      const TensorMeta& recorded_base,
                                      const TensorMeta& base) {
  TensorMeta meta = recorded;
  meta.storage = base.storage;
  meta.conjugate = base.conjugate != (recorded.conjugate != recorded_base.conjugate);
  meta.negative = base.negative != (recorded.negative != recorded_base.negative);
  if (base.dtype == recorded_base.dtype && base.strides == recorded_base.strides) {
    // Offsets count elements, which a reinterpretation may have made larger or smaller.
    if (recorded.dtype == recorded_base.dtype) {
      meta.offset = recorded.offset - recorded_base.offset + base.offset;
      return meta;
    }
    if (base.offset == recorded_base.offset) {
      return meta;
    }
    const int from = size_of(recorded_base.dtype);
    const int to = size_of(recorded.dtype);
    meta.offset =
        floor_div((base.offset - recorded_base.offset) * Expr(from), Expr(to)) + recorded.offset;
    return meta;
  }
  meta.offset = base.offset;
  switch (step.kind) {
    case Kind::kIdentity:
    case Kind::kConjugate:
    case Kind::kNegative: meta.strides = base.strides; return meta;
    case Kind::kReshape: {
      std::optional<std::vector<Expr>> strides = view_strides(base, recorded.sizes);
      if (!strides) {
        return std::nullopt;
      }
      meta.strides = *std::move(strides);
      return meta;
    }
    case Kind::kPermute:
      for (std::size_t i = 0; i < step.order.size(); ++i) {
        meta.strides[i] = base.strides[step.order[i]];
      }
      return meta;
    case Kind::kSelect:
    case Kind::kSlice: {
      meta.strides = base.strides;
      meta.offset = base.offset + step.start * base.strides[step.dimension];
      if (step.kind == Kind::kSelect) {
        meta.strides.erase(meta.strides.begin() + static_cast<std::ptrdiff_t>(step.dimension));
      } else {
        meta.strides[step.dimension] = meta.strides[step.dimension] * step.step;
      }
      return meta;
    }
    case Kind::kExpand: {
      const std::size_t added = recorded.sizes.size() - recorded_base.sizes.size();
      for (std::size_t i = meta.strides.size(); i-- > 0;) {
        if (i >= added) {
          const bool kept = recorded.sizes[i] == recorded_base.sizes[i - added];
          meta.strides[i] = kept ? base.strides[i - added] : Expr(0);
        } else if (recorded.sizes[i] != Expr(1)) {
          meta.strides[i] = 0;
        } else {
          meta.strides[i] =
              i + 1 < meta.strides.size() ? meta.sizes[i + 1] * meta.strides[i + 1] : Expr(1);
        }
      }
      return meta;
    }
    case Kind::kDiagonal: {
      const auto [first, second] = step.diagonal;
      const Expr& shifted = step.start.constant().value_or(0) < 0 ? base.strides[first] * Expr(-1)
                                                                  : base.strides[second];
      meta.strides.clear();
      for (std::size_t i = 0; i < base.strides.size(); ++i) {
        if (i != first && i != second) {
          meta.strides.push_back(base.strides[i]);
        }
      }
      meta.strides.push_back(base.strides[first] + base.strides[second]);
      meta.offset = base.offset + step.start * shifted;
      return meta;
    }
    case Kind::kReal:
      meta.strides.clear();
      for (const Expr& stride : base.strides) {
        meta.strides.push_back(stride * Expr(2));
      }
      meta.strides.push_back(1);
      meta.offset = base.offset * Expr(2);
      return meta;
    case Kind::kComplex:
      if (base.strides.empty() || base.strides.back() != Expr(1)) {
        return std::nullopt;
      }
      for (std::size_t i = 0; i < meta.strides.size(); ++i) {
        meta.strides[i] = floor_div(base.strides[i], Expr(2));
      }
      meta.offset = floor_div(base.offset, Expr(2));
      return meta;
    case Kind::kReinterpret:
      if (size_of(recorded.dtype) == size_of(base.dtype)) {
        meta.strides = base.strides;
        return meta;
      }
      if (!is_contiguous(base)) {
        return std::nullopt;
      }
      meta.strides = contiguous_strides(meta.sizes);
      meta.offset =
          floor_div(base.offset * Expr(size_of(base.dtype)), Expr(size_of(recorded.dtype)));
      return meta;
    case Kind::kStrided: break;
  }
  return std::nullopt;
}

}  // namespace kiln::ir
