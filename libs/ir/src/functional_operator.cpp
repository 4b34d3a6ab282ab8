#include "functional_operator.hpp"

#include <algorithm>
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
      {"aten.rrelu_with_noise.default", "aten.rrelu_with_noise_functional.default"},
      {"aten.rrelu_with_noise_.default", "aten.rrelu_with_noise_functional.default"},
      {"aten.__ilshift__.Scalar", "aten.__lshift__.Scalar"},
      {"aten.__ilshift__.Tensor", "aten.__lshift__.Tensor"},
      {"aten.__irshift__.Scalar", "aten.__rshift__.Scalar"},
      {"aten.__irshift__.Tensor", "aten.__rshift__.Tensor"},
      {"aten.pow_.Scalar", "aten.pow.Tensor_Scalar"},
      {"aten.pow_.Tensor", "aten.pow.Tensor_Tensor"},
      {"aten.arange.start_out", "aten.arange.start_step"},
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
  static const Names names = {"add_",
                              "sub_",
                              "mul_",
                              "div_",
                              "pow_",
                              "fmod_",
                              "remainder_",
                              "atan2_",
                              "hypot_",
                              "copysign_",
                              "xlogy_",
                              "floor_divide_",
                              "addcmul_",
                              "addcdiv_",
                              "clamp_",
                              "clamp_min_",
                              "clamp_max_",
                              "bitwise_and_",
                              "bitwise_or_",
                              "bitwise_xor_",
                              "ldexp_",
                              "gcd_",
                              "lcm_",
                              "nextafter_",
                              "bitwise_left_shift_",
                              "bitwise_right_shift_",
                              "__ilshift__",
                              "__irshift__"};
  return names;
}

/// In place they keep their type; to a tensor of its own they add integers up in the largest one.
const Names& accumulations() {
  static const Names names = {"cumsum_", "cumprod_"};
  return names;
}

// Operators of which even integers make floating-point numbers.
bool makes_real(std::string_view in_place, const Node& node) {
  const bool rounds = node.arguments.size() > 2 && in_place == "div_" &&
                      std::holds_alternative<std::string>(node.arguments[2]);
  return !rounds && (in_place == "div_" || in_place == "atan2_" || in_place == "copysign_" ||
                     in_place == "xlogy_");
}

// The type of what is computed from the operands; an `out=` argument is none of them.
DType promoted(const Graph& graph, const Node& node, bool without_mutated) {
  std::vector<const TensorMeta*> operands;
  for (std::uint32_t i = 0; i < node.arguments.size(); ++i) {
    const bool mutated =
        std::find(node.mutates.begin(), node.mutates.end(), i) != node.mutates.end();
    for_each_value(node.arguments[i], [&](ValueId id) {
      if (graph.value(id).is_tensor() && !(mutated && without_mutated)) {
        operands.push_back(&graph.tensor(id));
      }
    });
  }
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
  const std::string in_place = result.drops_mutated ? std::string(name) + "_" : std::string(name);
  using Order = FunctionalOperator::Order;
  if (row_major().contains(in_place)) {
    result.order = Order::kRowMajor;
  }
  if (comparisons().contains(in_place)) {
    result.dtype = DType::kBool;
    result.order = Order::kPointwise;
  } else if (promoting().contains(in_place)) {
    result.dtype = promoted(graph, node, result.drops_mutated);
    if (makes_real(in_place, node) &&
        (is_integral(*result.dtype) || result.dtype == DType::kBool)) {
      result.dtype = DType::kFloat32;
    }
    result.order = Order::kPointwise;
  } else if (result.drops_mutated) {
    result.order = Order::kRowMajor;
  } else if (accumulations().contains(name) && node.arguments.size() > 2 &&
             std::holds_alternative<std::monostate>(node.arguments[2])) {
    const DType own = graph.tensor(std::get<ValueId>(node.arguments[0])).dtype;
    result.dtype = is_integral(own) || own == DType::kBool ? DType::kInt64 : own;
  }
  return result;
}

}  // namespace kiln::ir
