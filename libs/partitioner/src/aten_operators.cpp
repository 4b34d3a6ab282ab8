#include "aten_operators.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace kiln::partitioner {
namespace {

constexpr std::array kArithmetic = std::to_array<std::string_view>({
    "abs",
    "add",
    "addcdiv",
    "addcmul",
    "angle",
    "atan2",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clamp",
    "clamp_max",
    "clamp_min",
    "conj_physical",
    "copysign",
    "div",
    "eq",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frac",
    "ge",
    "gt",
    "heaviside",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "le",
    "lerp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "masked_fill",
    "maximum",
    "minimum",
    "mul",
    "nan_to_num",
    "ne",
    "neg",
    "nextafter",
    "positive",
    "pow",
    "reciprocal",
    "remainder",
    "round",
    "rsqrt",
    "rsub",
    "sgn",
    "sign",
    "signbit",
    "sqrt",
    "square",
    "sub",
    "trunc",
    "where",
});

constexpr std::array kFunctions = std::to_array<std::string_view>({
    "acos",    "acosh",        "asin",          "asinh",
    "atan",    "atanh",        "cos",           "cosh",
    "deg2rad", "digamma",      "erf",           "erfc",
    "erfinv",  "exp",          "exp2",          "expm1",
    "i0",      "lgamma",       "log",           "log10",
    "log1p",   "log2",         "logaddexp",     "logaddexp2",
    "logit",   "rad2deg",      "sin",           "sinc",
    "sinh",    "special_entr", "special_erfcx", "special_xlog1py",
    "tan",     "tanh",         "xlogy",
});

constexpr std::array kActivations = std::to_array<std::string_view>({
    "celu",
    "elu",
    "elu_backward",
    "gelu",
    "gelu_backward",
    "hardshrink",
    "hardsigmoid",
    "hardsigmoid_backward",
    "hardswish",
    "hardswish_backward",
    "hardtanh",
    "hardtanh_backward",
    "leaky_relu",
    "leaky_relu_backward",
    "logit_backward",
    "mish",
    "native_dropout_backward",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "sigmoid_backward",
    "silu",
    "silu_backward",
    "softplus",
    "softplus_backward",
    "softshrink",
    "tanh_backward",
    "threshold",
    "threshold_backward",
});

constexpr std::array kReductions = std::to_array<std::string_view>({
    "amax",
    "amin",
    "any",
    "argmax",
    "max",
    "mean",
    "min",
    "std",
    "sum",
    "sum_to_size",
    "var",
    "var_mean",
});

constexpr std::array kMovement = std::to_array<std::string_view>({
    "_to_copy",
    "_unsafe_view",
    "clone",
    "gather",
    "index",
    "reshape",
    "to",
    "triu",
    "tril",
    "type_as",
});

constexpr std::array kGenerators = std::to_array<std::string_view>({
    "arange",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "lift_fresh_copy",
    "new_full",
    "new_zeros",
    "ones",
    "ones_like",
    "scalar_tensor",
    "sym_numel",
    "sym_size",
    "sym_stride",
    "zeros",
    "zeros_like",
});

// Of the primitives that some of PyTorch's decompositions end in.
constexpr std::array kPrimitives = std::to_array<std::string_view>({
    "_low_memory_max_pool_offsets_to_indices",
    "broadcast_in_dim",
    "convert_element_type",
    "div",
    "iota",
    "prepare_softmax_online",
    "sum",
    "var",
});

constexpr std::array kProducts = std::to_array<std::string_view>({
    "_efficient_attention_forward",
    "_flash_attention_forward",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_mm",
    "addbmm",
    "addmm",
    "addmv",
    "baddbmm",
    "bmm",
    "convolution",
    "convolution_backward",
    "dot",
    "linear",
    "matmul",
    "mm",
    "mv",
    "upsample_bilinear2d",
});

constexpr std::array kRandomPointwise =
    std::to_array<std::string_view>({"bernoulli", "native_dropout", "rand_like", "randn_like"});

bool holds(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The name without its namespace, or nothing if it is of another one.
std::string_view name_in(std::string_view space, std::string_view family) {
  return family.starts_with(space) ? family.substr(space.size()) : std::string_view();
}

std::string_view aten_name(std::string_view family) {
  return name_in("aten.", family);
}

}  // namespace

std::string_view family_of(std::string_view target) {
  const std::size_t name = target.find('.');
  if (name == std::string_view::npos) {
    return target;
  }
  return target.substr(0, target.find('.', name + 1));
}

bool is_cheap_family(std::string_view family) {
  // Integer arithmetic on sizes, as exported programs write it.
  if (family.starts_with("_operator.") || family.starts_with("math.")) {
    return true;
  }
  const std::string_view name = aten_name(family);
  return holds(kArithmetic, name) || holds(kFunctions, name) || holds(kActivations, name) ||
         holds(kReductions, name) || holds(kMovement, name) || holds(kGenerators, name) ||
         holds(kPrimitives, name_in("prims.", family));
}

bool is_product_family(std::string_view family) {
  return holds(kProducts, aten_name(family));
}

bool is_random_pointwise_family(std::string_view family) {
  return holds(kRandomPointwise, aten_name(family));
}

}  // namespace kiln::partitioner
