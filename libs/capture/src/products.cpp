#include "products.hpp"

#include <ATen/OpMathType.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kiln::capture {
namespace {

using Results = std::optional<std::vector<at::Tensor>>;
using Rule = Results (*)(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments);

bool is_plain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && !tensor.is_conj() &&
         !tensor.is_neg();
}

// libtorch's own rule, on tensors without memory. It throws what the product would throw.
Results matrix_product(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) {
  torch::jit::Stack stack = arguments.vec();
  for (c10::IValue& argument : stack) {
    if (argument.isTensor()) {
      const at::Tensor& tensor = argument.toTensor();
      if (!is_plain(tensor)) {
        return std::nullopt;
      }
      argument =
          at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
    }
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  const at::Tensor& result = stack.back().toTensor();
  if (!result.is_contiguous()) {
    return std::nullopt;
  }
  return std::vector{at::zeros(result.sizes(), arguments[0].toTensor().options())};
}

bool is_row_major(const at::Tensor& tensor) {
  return is_plain(tensor) && tensor.is_contiguous() &&
         tensor.suggest_memory_format() == at::MemoryFormat::Contiguous;
}

// Input, weight, bias, stride, padding, dilation, transposed, output padding, groups.
Results convolution(const c10::OperatorHandle& /*op*/, at::ArrayRef<c10::IValue> arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  const at::Tensor& weight = arguments[1].toTensor();
  const std::int64_t groups = arguments[8].toInt();
  const auto rank = static_cast<std::size_t>(input.dim());
  if (arguments[6].toBool() || rank < 3 || weight.dim() != input.dim() || groups < 1 ||
      input.numel() == 0 || input.size(1) != weight.size(1) * groups ||
      weight.size(0) % groups != 0 || input.scalar_type() != weight.scalar_type() ||
      !is_row_major(input) || !is_row_major(weight)) {
    return std::nullopt;
  }
  if (arguments[2].isTensor() && arguments[2].toTensor().defined()) {
    const at::Tensor& bias = arguments[2].toTensor();
    if (bias.dim() != 1 || bias.size(0) != weight.size(0) ||
        bias.scalar_type() != input.scalar_type()) {
      return std::nullopt;
    }
  }
  const std::vector<std::int64_t> strides = arguments[3].toIntVector();
  const std::vector<std::int64_t> padding = arguments[4].toIntVector();
  const std::vector<std::int64_t> dilation = arguments[5].toIntVector();
  // One number may stand for all dimensions.
  const auto at = [](const std::vector<std::int64_t>& numbers, std::size_t dimension) {
    return numbers.size() == 1 ? numbers[0] : numbers.at(dimension);
  };
  std::vector<std::int64_t> sizes{input.size(0), weight.size(0)};
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    const auto dimension = static_cast<std::int64_t>(i + 2);
    const std::int64_t room = input.size(dimension) + 2 * at(padding, i) -
                              at(dilation, i) * (weight.size(dimension) - 1) - 1;
    if (room < 0 || at(strides, i) < 1 || at(padding, i) < 0 || at(dilation, i) < 1) {
      return std::nullopt;
    }
    sizes.push_back(room / at(strides, i) + 1);
  }
  return std::vector{at::zeros(sizes, input.options())};
}

// Query, key, value, …: the result, and the logarithms of the sums that a backward would need.
Results attention(const c10::OperatorHandle& /*op*/, at::ArrayRef<c10::IValue> arguments) {
  const at::Tensor& query = arguments[0].toTensor();
  const at::Tensor& key = arguments[1].toTensor();
  const at::Tensor& value = arguments[2].toTensor();
  for (const at::Tensor& operand : {query, key, value}) {
    if (!is_plain(operand) || operand.dim() != 4 || operand.size(0) != query.size(0) ||
        operand.size(1) != query.size(1) || operand.size(3) != query.size(3) ||
        operand.scalar_type() != query.scalar_type() || operand.numel() == 0) {
      return std::nullopt;
    }
  }
  if (key.size(2) != value.size(2)) {
    return std::nullopt;
  }
  const std::array<std::int64_t, 3> sums{query.size(0), query.size(2), query.size(1)};
  return std::vector{at::zeros_like(query),
                     at::zeros(sums, query.options().dtype(at::toOpMathType(query.scalar_type())))
                         .transpose(1, 2)};
}

const std::unordered_map<std::string_view, Rule>& rules() {
  static const std::unordered_map<std::string_view, Rule> table = {
      {"aten.mm.default", matrix_product},
      {"aten.addmm.default", matrix_product},
      {"aten.bmm.default", matrix_product},
      {"aten.baddbmm.default", matrix_product},
      {"aten.convolution.default", convolution},
      {"aten._scaled_dot_product_flash_attention_for_cpu.default", attention}};
  return table;
}

}  // namespace

bool skip_product(const c10::OperatorHandle& op,
                  const std::string& target,
                  torch::jit::Stack& stack) {
  const auto rule = rules().find(target);
  if (rule == rules().end()) {
    return false;
  }
  const std::size_t base = stack.size() - op.schema().arguments().size();
  Results results = rule->second(op, at::ArrayRef<c10::IValue>(stack).slice(base));
  if (!results) {
    return false;
  }
  stack.resize(base);
  for (at::Tensor& result : *results) {
    stack.emplace_back(std::move(result));
  }
  return true;
}

}  // namespace kiln::capture
