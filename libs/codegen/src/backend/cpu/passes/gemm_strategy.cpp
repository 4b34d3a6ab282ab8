#include "backend/cpu/passes/gemm_strategy.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "backend/cpu/match/packed_gemm.hpp"
#include "graph/arguments.hpp"
#include "graph/constants.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::NodeId;
using ir::ValueId;

namespace {

// What reads an element once, or keeps a row of them.
constexpr std::array<std::string_view, 8> kReaders = {"aten.add.Tensor",
                                                      "aten.gelu.default",
                                                      "aten.mul.Tensor",
                                                      "aten.native_layer_norm.default",
                                                      "aten.relu.default",
                                                      "aten.sigmoid.default",
                                                      "aten.silu.default",
                                                      "aten.tanh.default"};

bool is_batched(const ir::Node& node) {
  return node.target == "aten.bmm.default" || node.target == "aten.baddbmm.default";
}

bool is_product(const ir::Node& node) {
  return is_batched(node) || node.target == "aten.mm.default" ||
         node.target == "aten.addmm.default";
}

}  // namespace

std::size_t lhs_argument(const ir::Node& product) {
  return product.target == "aten.addmm.default" || product.target == "aten.baddbmm.default" ? 1 : 0;
}

GemmStrategist::GemmStrategist(const ir::Graph& graph, const Target& target, bool bind_constants)
    : graph_(graph),
      target_(target),
      tuning_(tuning_of(target)),
      uses_(graph),
      hint_(graph),
      fixed_(bind_constants ? fixed_inputs(graph) : std::vector<bool>(graph.values().size())),
      known_(fixed_),
      left_(tuning_.weights.max_total_bytes) {}

GemmStrategy GemmStrategist::choose(NodeId id) {
  note_known(id);
  const ir::Node& node = graph_.node(id);
  if (!is_product(node)) {
    return GemmStrategy::kAsItIs;
  }
  // What is computed from constants alone is computed once.
  if (target_.panel_width > 0 && !known_[node.results[0].index()]) {
    const GemmStrategy found = is_batched(node) ? choose_for_batch(node) : choose_for_weight(node);
    if (found != GemmStrategy::kAsItIs) {
      return found;
    }
  }
  return !target_.blas_packs_slowly && has_bias_for_a_kernel(node) ? GemmStrategy::kBiasApart
                                                                   : GemmStrategy::kAsItIs;
}

void GemmStrategist::note_known(NodeId id) {
  bool known = true;
  for_each_operand(graph_.node(id), [&](ValueId value) { known = known && known_[value.index()]; });
  for (const ValueId result : graph_.node(id).results) {
    if (result.valid()) {
      known_[result.index()] = known;
    }
  }
}

GemmStrategy GemmStrategist::choose_for_batch(const ir::Node& node) const {
  const std::size_t lhs = lhs_argument(node);
  // Rows that are read once gain nothing.
  const bool is_single = graph_.tensor(operand(node, lhs)).sizes[1] == Expr(1);
  return target_.blas_packs_slowly && !is_single && !packs_panels_itself(node) &&
                 is_transposed_batch(operand(node, lhs + 1))
             ? GemmStrategy::kTransposedRhs
             : GemmStrategy::kAsItIs;
}

GemmStrategy GemmStrategist::choose_for_weight(const ir::Node& node) {
  const std::size_t lhs = lhs_argument(node);
  const ValueId weight = operand(node, lhs + 1);
  const ir::Range rows = graph_.tensor(operand(node, lhs)).sizes[0].bounds(graph_.symbols());
  const bool packs = is_packable(node);
  const WeightTuning::Worth& worth = packs ? tuning_.weights.packed : tuning_.weights.transposed;
  const bool varies = rows.low != rows.high;
  // A single row is loops, which want the weight as it is. Where rows vary it is packed: that is
  // right for few and costs little for many.
  if ((!packs && (!target_.blas_packs_slowly || varies)) || rows.high < 2 ||
      !is_transposed_weight(weight)) {
    return GemmStrategy::kAsItIs;
  }
  const std::int64_t bytes = 4 * ir::element_count(graph_.tensor(weight).sizes)
                                     .constant()
                                     .value_or(tuning_.weights.max_total_bytes);
  if (rows.low >
      (bytes <= tuning_.weights.light_bytes ? worth.max_rows_if_light : worth.max_rows)) {
    return GemmStrategy::kAsItIs;
  }
  if (!laid_out_.contains(weight)) {
    if (bytes < worth.min_bytes || bytes > tuning_.weights.max_bytes || bytes > left_) {
      return GemmStrategy::kAsItIs;
    }
    left_ -= bytes;
    laid_out_.insert(weight);
  }
  return packs ? GemmStrategy::kPackedWeight : GemmStrategy::kTransposedRhs;
}

// Whether a product whose weight is worth packing can be a packed GEMM (match/packed_gemm.hpp).
bool GemmStrategist::is_packable(const ir::Node& node) const {
  const ir::TensorMeta& result = graph_.tensor(node.results[0]);
  const std::optional<std::int64_t> columns = result.sizes.back().constant();
  if (result.sizes.size() != 2 || !columns || *columns % target_.panel_width != 0 ||
      result.strides != ir::contiguous_strides(result.sizes)) {
    return false;
  }
  if (node.target == "aten.mm.default") {
    return true;
  }
  const ir::TensorMeta& added = graph_.tensor(operand(node, 0));
  return is_one(node.arguments[3]) && is_one(node.arguments[4]) &&
         (added.sizes == std::vector<Expr>{*columns} ||
          (added.sizes == result.sizes && added.strides[0].is_constant())) &&
         added.strides.back() == Expr(1);
}

// Whether `value` is a weight that is stored transposed.
bool GemmStrategist::is_transposed_weight(ValueId value) const {
  const NodeId view = value.valid() ? graph_.value(value).producer : NodeId();
  if (!view.valid() || graph_.node(view).target != "aten.t.default") {
    return false;
  }
  const ValueId weight = operand(graph_.node(view), 0);
  const ir::TensorMeta& meta = graph_.tensor(weight);
  return fixed_[weight.index()] && meta.dtype == ir::DType::kFloat32 &&
         meta.strides == ir::contiguous_strides(meta.sizes);
}

bool GemmStrategist::is_transposed_batch(ValueId value) const {
  const ir::TensorMeta& meta = graph_.tensor(value);
  return meta.dtype == ir::DType::kFloat32 && meta.strides[1] == Expr(1) &&
         !(meta.strides[2] == Expr(1)) && !(meta.sizes[2] == Expr(1));
}

// Whether a batch is a kernel that packs panels itself.
bool GemmStrategist::packs_panels_itself(const ir::Node& node) const {
  const bool added = node.target == "aten.baddbmm.default";
  if (added && !(is_one(node.arguments[3]) && is_one(node.arguments[4]) &&
                 has_rows_of(operand(node, 0), node.results[0]))) {
    return false;
  }
  const std::vector<Expr>& sizes = graph_.tensor(operand(node, lhs_argument(node))).sizes;
  return graph_.tensor(node.results[0]).sizes.back().is_constant() &&
         packs_panels(sizes[0], sizes[1], sizes[2], tuning_.gemm, hint_);
}

// Whether the last dim of `value`, if it has any, is that of `result`, and dense.
bool GemmStrategist::has_rows_of(ValueId value, ValueId result) const {
  const ir::TensorMeta& meta = graph_.tensor(value);
  return !meta.sizes.empty() && meta.strides.back() == Expr(1) &&
         meta.sizes.back() == graph_.tensor(result).sizes.back();
}

// Whether a kernel that reads a large product can add its bias. libtorch would write the bias to
// every row of the result before it multiplies.
bool GemmStrategist::has_bias_for_a_kernel(const ir::Node& node) const {
  if (node.target != "aten.addmm.default" || !is_one(node.arguments[3]) ||
      !is_one(node.arguments[4])) {
    return false;
  }
  const ir::TensorMeta& result = graph_.tensor(node.results[0]);
  const ir::TensorMeta& bias = graph_.tensor(operand(node, 0));
  return result.dtype == ir::DType::kFloat32 && bias.sizes.size() == 1 &&
         hint_.always_at_least(result.sizes[0], tuning_.bias.min_rows) &&
         hint_.always_at_least(Expr(4) * ir::element_count(result.sizes), tuning_.bias.min_bytes) &&
         is_read_by_a_kernel(node.results[0]);
}

// Once, maybe through views.
bool GemmStrategist::is_read_by_a_kernel(ValueId value) const {
  while (!uses_.is_output(value) && uses_.of(value).size() == 1) {
    const ir::Node& reader = graph_.node(uses_.of(value)[0]);
    if (std::ranges::find(kReaders, reader.target) != kReaders.end()) {
      return true;
    }
    if (reader.aliases.empty() || reader.results.size() != 1) {
      return false;
    }
    value = reader.results[0];
  }
  return false;
}

}  // namespace kiln::codegen
