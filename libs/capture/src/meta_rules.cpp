#include "meta_rules.hpp"

#include <ATen/OpMathType.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "convolution_meta.hpp"
#include "dry_run.hpp"
#include "meta_tensors.hpp"

namespace kiln::capture {
namespace {

using Results = MetaResults;
using Rule = Results (*)(std::span<const c10::IValue> arguments);

// Query, key, value, …: the result, and the logsumexp that the backward needs.
Results attention(std::span<const c10::IValue> arguments) {
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
  return std::vector{at::empty_like(query, query.options().device(at::kMeta)),
                     dense_meta(sums, at::toOpMathType(query.scalar_type())).transpose(1, 2)};
}

// Gradient, indices, rows of the table.
Results embedding_backward(std::span<const c10::IValue> arguments) {
  const at::Tensor& gradient = arguments[0].toTensor();
  if (!is_plain(gradient) || gradient.dim() != arguments[1].toTensor().dim() + 1) {
    return std::nullopt;
  }
  return std::vector{dense_meta({arguments[2].toInt(), gradient.size(-1)}, gradient.scalar_type())};
}

// Input, weights, biases, hidden state, cell state, …, hidden size. In inference only.
Results recurrent_layer(std::span<const c10::IValue> arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  const at::Tensor& state = arguments[5].toTensor();
  const std::int64_t hidden = arguments[10].toInt();
  const std::array<std::int64_t, 2> sizes{input.dim() == 3 ? input.size(1) : 0, hidden};
  if (c10::GradMode::is_enabled() || arguments[15].toBool() || input.dim() != 3 ||
      input.scalar_type() != at::kFloat || input.numel() == 0 || !is_plain(input) ||
      state.sizes() != at::IntArrayRef(sizes) || arguments[6].toTensor().sizes() != state.sizes()) {
    return std::nullopt;
  }
  return std::vector{dense_meta({input.size(0), sizes[0], hidden}, at::kFloat),
                     dense_meta(sizes, at::kFloat),
                     dense_meta(sizes, at::kFloat),
                     at::Tensor()};
}

bool is_defined(const c10::IValue& argument) {
  return argument.isTensor() && argument.toTensor().defined();
}

// Whether `argument` is absent, or contiguous and of `type`.
bool is_dense_parameter(const c10::IValue& argument, at::ScalarType type) {
  return !is_defined(argument) ||
         (is_plain(argument.toTensor()) && argument.toTensor().is_contiguous() &&
          argument.toTensor().scalar_type() == type);
}

bool is_float_or_double(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
}

Results relu(std::span<const c10::IValue> arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  if (!is_plain(input) || !input.is_floating_point() || !input.is_non_overlapping_and_dense()) {
    return std::nullopt;
  }
  return std::vector{at::empty_like(input, input.options().device(at::kMeta))};
}

// input, normalized_shape, weight, bias, eps: the result, and mean and rstd (reciprocal standard
// deviation) of each row.
Results layer_norm(std::span<const c10::IValue> arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  const std::vector<std::int64_t> normalized = arguments[1].toIntVector();
  const at::ScalarType type = input.scalar_type();
  if (!is_plain(input) || !is_float_or_double(input) || input.numel() == 0 || normalized.empty() ||
      static_cast<std::int64_t>(normalized.size()) > input.dim() ||
      !is_dense_parameter(arguments[2], type) || !is_dense_parameter(arguments[3], type)) {
    return std::nullopt;
  }
  const std::size_t rows = static_cast<std::size_t>(input.dim()) - normalized.size();
  const at::IntArrayRef wanted(normalized);
  if (input.sizes().slice(rows) != wanted) {
    return std::nullopt;
  }
  for (const std::size_t parameter : {2, 3}) {
    if (is_defined(arguments[parameter]) && arguments[parameter].toTensor().sizes() != wanted) {
      return std::nullopt;
    }
  }
  std::vector<std::int64_t> statistics = input.sizes().vec();
  std::fill(statistics.begin() + static_cast<std::ptrdiff_t>(rows), statistics.end(), 1);
  return std::vector{
      dense_meta(input.sizes(), type), dense_meta(statistics, type), dense_meta(statistics, type)};
}

// Input, weight, bias, samples, channels, pixels, groups, epsilon: the result, and mean and rstd
// of each group.
Results group_norm(std::span<const c10::IValue> arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  const at::ScalarType type = input.scalar_type();
  const std::int64_t samples = arguments[3].toInt(), channels = arguments[4].toInt(),
                     pixels = arguments[5].toInt(), groups = arguments[6].toInt();
  if (!is_float_or_double(input) || !is_row_major(input) || input.numel() == 0 || groups < 1 ||
      channels % groups != 0 || input.numel() != samples * channels * pixels ||
      !is_dense_parameter(arguments[1], type) || !is_dense_parameter(arguments[2], type)) {
    return std::nullopt;
  }
  for (const std::size_t parameter : {1, 2}) {
    if (is_defined(arguments[parameter]) && arguments[parameter].toTensor().numel() != channels) {
      return std::nullopt;
    }
  }
  const std::array<std::int64_t, 2> statistics{samples, groups};
  return std::vector{
      dense_meta(input.sizes(), type), dense_meta(statistics, type), dense_meta(statistics, type)};
}

// Input, weight, bias, running mean and variance, training, …: the result. In inference save_mean
// and save_invstd are empty.
Results batch_norm(std::span<const c10::IValue> arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  const at::ScalarType type = input.scalar_type();
  if (arguments[5].toBool() || input.dim() < 2 || !is_float_or_double(input) ||
      !is_row_major(input) || input.numel() == 0) {
    return std::nullopt;
  }
  for (const std::size_t parameter : {1, 2, 3, 4}) {
    const bool is_needed = parameter > 2;
    if ((is_needed && !is_defined(arguments[parameter])) ||
        !is_dense_parameter(arguments[parameter], type) ||
        (is_defined(arguments[parameter]) &&
         arguments[parameter].toTensor().numel() != input.size(1))) {
      return std::nullopt;
    }
  }
  return std::vector{dense_meta(input.sizes(), type), dense_meta({0}, type), dense_meta({0}, type)};
}

// Data, name, lengths, indices, offsets, axis, …. The kernel trusts what lengths and offsets say,
// and reads outside of memory at sizes for which they were not made.
Results segment_reduce(std::span<const c10::IValue> arguments) {
  const at::Tensor& data = arguments[0].toTensor();
  const std::int64_t axis = arguments[5].toInt();
  const bool has_lengths = is_defined(arguments[2]);
  if (!is_plain(data) || !data.is_floating_point() || axis < 0 || axis >= data.dim() ||
      (!has_lengths && !is_defined(arguments[4]))) {
    return std::nullopt;
  }
  const at::Tensor& segments = arguments[has_lengths ? 2 : 4].toTensor();
  if (segments.dim() != axis + 1 || (!has_lengths && segments.size(axis) == 0)) {
    return std::nullopt;
  }
  std::vector<std::int64_t> sizes = data.sizes().vec();
  sizes[static_cast<std::size_t>(axis)] = segments.size(axis) - (has_lengths ? 0 : 1);
  return std::vector{dense_meta(sizes, data.scalar_type())};
}

const std::unordered_map<std::string_view, Rule>& rules() {
  static const std::unordered_map<std::string_view, Rule> table = {
      {"aten.relu.default", relu},
      {"aten.native_layer_norm.default", layer_norm},
      {"aten.native_group_norm.default", group_norm},
      {"aten.native_batch_norm.default", batch_norm},
      {"aten.convolution.default", convolution_meta},
      {"aten.convolution_backward.default", convolution_backward_meta},
      {"aten.embedding_dense_backward.default", embedding_backward},
      {"aten.mkldnn_rnn_layer.default", recurrent_layer},
      {"aten.segment_reduce.default", segment_reduce},
      {"aten._scaled_dot_product_flash_attention_for_cpu.default", attention}};
  return table;
}

// Operators that choose what they call by the device, or whose other kernels read elements.
const std::unordered_set<std::string_view>& unfaithful_on_meta() {
  static const std::unordered_set<std::string_view> names = {"aten.convolution.default",
                                                             "aten.convolution_backward.default",
                                                             "aten._convolution.default",
                                                             "aten.mkldnn_convolution.default",
                                                             "aten.linalg_lstsq.default",
                                                             "aten._efficientzerotensor.default",
                                                             "aten._pack_padded_sequence.default",
                                                             "aten._ctc_loss.default",
                                                             "aten._ctc_loss.Tensor"};
  return names;
}

}  // namespace

// An operator with a meta kernel and a CPU kernel computes its output geometry in a function that
// both share. A composite one calls the same operators on either device. Custom operators are not
// trusted: they may read elements, which a meta tensor does not have.
bool has_faithful_meta_kernel(const c10::OperatorHandle& op, const std::string& target) {
  using c10::DispatchKey;
  if (!target.starts_with("aten.") || unfaithful_on_meta().contains(target)) {
    return false;
  }
  return op.hasKernelForDispatchKey(DispatchKey::Meta) ||
         (!op.hasKernelForDispatchKey(DispatchKey::CPU) &&
          (op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
           op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional)));
}

std::optional<std::vector<at::Tensor>> apply_meta_rule(const std::string& target,
                                                       std::span<const c10::IValue> arguments) {
  const auto rule = rules().find(target);
  return rule == rules().end() ? std::nullopt : rule->second(arguments);
}

}  // namespace kiln::capture
