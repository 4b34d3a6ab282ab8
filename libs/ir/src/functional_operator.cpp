#include "functional_operator.hpp"

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "geometry.hpp"
#include "kiln/base/error.hpp"
#include "view_step.hpp"

namespace kiln::ir {
namespace {

using Table = std::unordered_map<std::string_view, std::string_view>;
using Names = std::unordered_set<std::string_view>;

/// Those whose functional form is not called after them.
const Table& renamed() {
  static const Table table = {
      {"aten.normal_.default", "aten.normal_functional.default"},
      {"aten.bernoulli_.float", "aten.bernoulli.p"},
      {"aten.native_batch_norm.default", "aten._native_batch_norm_legit_functional.default"},
      {"aten._native_batch_norm_legit.default", "aten._native_batch_norm_legit_functional.default"},
      {"aten._batch_norm_with_update.default", "aten._batch_norm_with_update_functional.default"},
      {"aten._fused_moving_avg_obs_fq_helper.default",
       "aten._fused_moving_avg_obs_fq_helper_functional.default"},
      {"aten.add.out", "aten.add.Tensor"},
      {"aten.sub.out", "aten.sub.Tensor"},
      {"aten.mul.out", "aten.mul.Tensor"},
      {"aten.div.out", "aten.div.Tensor"},
      {"aten.div.out_mode", "aten.div.Tensor_mode"},
      {"aten.max.out", "aten.max.other"},
      {"aten.min.out", "aten.min.other"},
      {"aten.sum.IntList_out", "aten.sum.dim_IntList"},
      {"aten.prod.int_out", "aten.prod.dim_int"},
      {"aten.mean.out", "aten.mean.dim"},
      {"aten.var.out", "aten.var.dim"},
      {"aten.std.out", "aten.std.dim"},
      {"aten.any.out", "aten.any.dim"},
      {"aten.all.out", "aten.all.dim"},
  };
  return table;
}

/// Functional forms that allocate their result row-major.
const Names& row_major() {
  static const Names names = {"masked_fill_",    "masked_scatter_", "scatter_",    "scatter_add_",
                              "scatter_reduce_", "index_add_",      "index_copy_", "index_reduce_",
                              "cumsum_",         "cumprod_",        "tril_",       "triu_",
                              "bernoulli_",      "addmm_",          "addmv_",      "addr_",
                              "addbmm_",         "baddbmm_",        "renorm_",     "sspaddmm_"};
  return names;
}

const Names& comparisons() {
  static const Names names = {"eq_",
                              "ne_",
                              "lt_",
                              "le_",
                              "gt_",
                              "ge_",
                              "logical_and_",
                              "logical_or_",
                              "logical_xor_",
                              "logical_not_"};
  return names;
}

const Names& promoting() {
  static const Names names = {
      "add_",        "sub_",         "mul_",   "div_",       "pow_",       "fmod_",
      "remainder_",  "atan2_",       "hypot_", "copysign_",  "xlogy_",     "floor_divide_",
      "addcmul_",    "addcdiv_",     "clamp_", "clamp_min_", "clamp_max_", "bitwise_and_",
      "bitwise_or_", "bitwise_xor_", "ldexp_", "gcd_",       "lcm_",       "nextafter_"};
  return names;
}

DType promoted(const Graph& graph, const Node& node) {
  std::vector<const TensorMeta*> operands;
  for_each_operand(node, [&](ValueId id) {
    if (graph.value(id).is_tensor()) {
      operands.push_back(&graph.tensor(id));
    }
  });
  return promote(operands);
}

}  // namespace

FunctionalOperator functional_operator(const Graph& graph, const Node& node) {
  const std::string_view name = operator_name(node.target);
  const std::size_t dot = node.target.rfind('.');
  const std::string_view overload = std::string_view(node.target).substr(dot + 1);
  FunctionalOperator result;
  result.drops_mutated = overload == "out" || overload.ends_with("_out") || overload == "out_mode";
  if (const auto found = renamed().find(node.target); found != renamed().end()) {
    result.target = found->second;
  } else if (overload == "out") {
    result.target = node.target.substr(0, dot) + ".default";
  } else if (result.drops_mutated) {
    result.target = node.target.substr(0, node.target.size() - 4);
  } else if (name.ends_with('_')) {
    result.target = without_underscore(node.target);
  } else {
    throw Error(ErrorCode::kUnsupported,
                node.target + " mutates an argument and has no functional form that is known");
  }
  if (result.drops_mutated) {
    result.contiguous_result = true;
    return result;
  }
  result.contiguous_result = row_major().contains(name);
  if (comparisons().contains(name)) {
    result.dtype = DType::kBool;
  } else if (promoting().contains(name)) {
    result.dtype = promoted(graph, node);
  }
  return result;
}

}  // namespace kiln::ir
