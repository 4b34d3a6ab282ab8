#include "convolution_meta.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "meta_tensors.hpp"

namespace kiln::capture {
namespace {

// How a window moves along one dimension of an image.
struct Window {
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;
  std::int64_t dilation;
  std::int64_t output_padding;
};

bool is_valid(const Window& window) {
  return window.stride >= 1 && window.padding >= 0 && window.dilation >= 1 &&
         window.output_padding >= 0 &&
         window.output_padding < std::max(window.stride, window.dilation);
}

// In the order of rows, maybe with a step from one element to the next, as the real parts of
// complex numbers have it. libtorch copies such an operand to a dense one.
bool is_in_row_order(const at::Tensor& tensor) {
  if (!is_plain(tensor) || tensor.suggest_memory_format() != at::MemoryFormat::Contiguous) {
    return false;
  }
  std::int64_t expected = 0;
  for (std::int64_t d = tensor.dim() - 1; d >= 0; --d) {
    if (tensor.size(d) == 1) {
      continue;
    }
    if (tensor.stride(d) < 1 || (expected != 0 && tensor.stride(d) != expected)) {
      return false;
    }
    expected = tensor.stride(d) * tensor.size(d);
  }
  return true;
}

// Where a window fits nowhere, the operator has an error of its own.
std::optional<std::int64_t> convolved_size(std::int64_t size, const Window& window) {
  const std::int64_t reach = window.dilation * (window.kernel - 1) + 1;
  const std::int64_t padded = size + 2 * window.padding;
  return padded < reach ? std::nullopt : std::optional((padded - reach) / window.stride + 1);
}

std::optional<std::int64_t> transposed_size(std::int64_t size, const Window& window) {
  const std::int64_t reach = window.dilation * (window.kernel - 1) + 1;
  const std::int64_t result =
      (size - 1) * window.stride - 2 * window.padding + reach + window.output_padding;
  return result < 1 ? std::nullopt : std::optional(result);
}

}  // namespace

MetaResults convolution_meta(std::span<const c10::IValue> arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  const at::Tensor& weight = arguments[1].toTensor();
  const bool transposed = arguments[6].toBool();
  const std::int64_t groups = arguments[8].toInt();
  const auto rank = static_cast<std::size_t>(input.dim());
  if (rank < 3 || weight.dim() != input.dim() || groups < 1 || input.numel() == 0 ||
      weight.numel() == 0 || weight.size(0) % groups != 0 ||
      input.size(1) != (transposed ? weight.size(0) : weight.size(1) * groups) ||
      input.scalar_type() != weight.scalar_type() || !is_in_row_order(input) ||
      !is_in_row_order(weight)) {
    return std::nullopt;
  }
  const std::int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  if (arguments[2].isTensor() && arguments[2].toTensor().defined()) {
    const at::Tensor& bias = arguments[2].toTensor();
    if (bias.dim() != 1 || bias.size(0) != channels || bias.scalar_type() != input.scalar_type()) {
      return std::nullopt;
    }
  }
  // One number may stand for all dimensions.
  const auto at = [&](std::size_t argument, std::size_t dimension) {
    const std::vector<std::int64_t> numbers = arguments[argument].toIntVector();
    return numbers.size() == 1 ? numbers[0] : numbers.at(dimension);
  };
  std::vector<std::int64_t> sizes{input.size(0), channels};
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    const auto dimension = static_cast<std::int64_t>(i + 2);
    const Window window{.kernel = weight.size(dimension),
                        .stride = at(3, i),
                        .padding = at(4, i),
                        .dilation = at(5, i),
                        .output_padding = transposed ? at(7, i) : 0};
    if (!is_valid(window)) {
      return std::nullopt;
    }
    const std::optional<std::int64_t> size =
        (transposed ? transposed_size : convolved_size)(input.size(dimension), window);
    if (!size) {
      return std::nullopt;
    }
    sizes.push_back(*size);
  }
  return std::vector{dense_meta(sizes, input.scalar_type())};
}

// The forward has checked that the shapes fit.
MetaResults convolution_backward_meta(std::span<const c10::IValue> arguments) {
  const at::Tensor& gradient = arguments[0].toTensor();
  const at::Tensor& input = arguments[1].toTensor();
  const at::Tensor& weight = arguments[2].toTensor();
  if (input.dim() < 4 || gradient.dim() != input.dim() || weight.dim() != input.dim() ||
      input.numel() == 0 || gradient.numel() == 0 ||
      gradient.scalar_type() != input.scalar_type() ||
      weight.scalar_type() != input.scalar_type() || !is_row_major(gradient) ||
      !is_row_major(input) || !is_row_major(weight)) {
    return std::nullopt;
  }
  const c10::List<bool> wanted = arguments[10].toBoolList();
  std::vector<at::Tensor> gradients(3);
  for (const std::size_t i : {0, 1}) {
    if (wanted.get(i)) {
      gradients[i] = dense_meta(arguments[i + 1].toTensor().sizes(), input.scalar_type());
    }
  }
  if (wanted.get(2)) {
    const bool transposed = arguments[7].toBool();
    const std::int64_t channels =
        transposed ? weight.size(1) * arguments[9].toInt() : weight.size(0);
    gradients[2] = dense_meta({channels}, input.scalar_type());
  }
  return gradients;
}

}  // namespace kiln::capture
