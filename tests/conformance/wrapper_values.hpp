// Two types that wrap tensors, to be compiled through: a pair, of tensors or of other wrappers, and
// numbers that were quantized.

#pragma once

#include <torch/torch.h>

#include <string>

#include "kiln/autograd_dispatch/values.hpp"

namespace kiln::testing {

/// Two of a kind: what is done to it is done to both.
template <class Part>
struct Two {
  Part a, b;
};

template <class Part>
Two<Part> operator*(const Two<Part>& x, const Two<Part>& y) {
  return {x.a * y.a, x.b * y.b};
}
template <class Part>
Two<Part> operator*(const torch::Tensor& x, const Two<Part>& y) {
  return {x * y.a, x * y.b};
}
template <class Part>
Two<Part> operator*(const Two<Part>& x, double y) {
  return {x.a * y, x.b * y};
}
template <class Part>
Two<Part> operator+(const Two<Part>& x, const Two<Part>& y) {
  return {x.a + y.a, x.b + y.b};
}
template <class Part>
Two<Part> operator+(const torch::Tensor& x, const Two<Part>& y) {
  return {x + y.a, x + y.b};
}

inline torch::Tensor sine(const torch::Tensor& x) {
  return x.sin();
}
template <class Part>
Two<Part> sine(const Two<Part>& x) {
  return {sine(x.a), sine(x.b)};
}
inline torch::Tensor total(const torch::Tensor& x) {
  return x.sum();
}
template <class Part>
torch::Tensor total(const Two<Part>& x) {
  return total(x.a) + total(x.b);
}

/// Numbers in a few bits: `(values - zero) * scale`, one scale for each slice along `axis`. Axis
/// and zero belong to the type of the tensor, not to its data.
struct ScaledQuantized {
  torch::Tensor values;  ///< int8
  torch::Tensor scale;
  std::int64_t axis = 0;
  double zero = 0;

  [[nodiscard]] torch::Tensor dequantized() const {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(values.dim()), 1);
    shape[static_cast<std::size_t>(axis)] = -1;
    return (values.to(scale.scalar_type()) - zero) * scale.view(shape);
  }
};

inline ScaledQuantized quantized(const torch::Tensor& x, std::int64_t axis, double zero) {
  std::vector<std::int64_t> others;
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    if (i != axis) {
      others.push_back(i);
    }
  }
  const torch::Tensor scale = x.detach().abs().amax(others, /*keepdim=*/true) / 100;
  const torch::Tensor values = (x.detach() / scale).round() + zero;
  return {values.to(torch::kChar), scale.flatten(), axis, zero};
}

}  // namespace kiln::testing

template <class Part>
struct kiln::autograd_dispatch::ValueTraits<kiln::testing::Two<Part>> {
  static constexpr const char* kName = "two";
  static auto flatten(const testing::Two<Part>& value) { return std::tuple(value.a, value.b); }
  static testing::Two<Part> unflatten(Part a, Part b) { return {std::move(a), std::move(b)}; }
};

template <>
struct kiln::autograd_dispatch::ValueTraits<kiln::testing::ScaledQuantized> {
  static constexpr const char* kName = "scaled-quantized";
  static auto flatten(const testing::ScaledQuantized& value) {
    return std::tuple(value.values, value.scale, value.axis, value.zero);
  }
  static testing::ScaledQuantized unflatten(at::Tensor values,
                                            at::Tensor scale,
                                            std::int64_t axis,
                                            double zero) {
    return {std::move(values), std::move(scale), axis, zero};
  }
};
