#include "difference.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <limits>

#include "console.hpp"

namespace kiln::tool {
namespace {

double default_tolerance(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
    case at::kComplexDouble: return 1e-9;
    case at::kHalf: return 1e-2;
    case at::kBFloat16: return 5e-2;
    default: return at::isIntegralType(type, true) ? 0 : 1e-4;
  }
}

// By element, in row-major order.
struct Distances {
  at::Tensor distance;
  at::Tensor is_wrong;
};

// Not as doubles, which do not have all integers beyond 2^53.
Distances between_integers(const at::Tensor& computed, const at::Tensor& expected) {
  const at::Tensor difference = (computed.to(at::kLong) - expected.to(at::kLong)).flatten();
  return {difference.to(at::kDouble).abs(), difference.ne(0)};
}

at::Tensor as_doubles(const at::Tensor& tensor) {
  const at::Tensor real = tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor;
  return real.to(at::kDouble).contiguous().flatten();
}

Distances between_numbers(const at::Tensor& computed, const at::Tensor& expected, double allowed) {
  const at::Tensor is = as_doubles(computed);
  const at::Tensor should = as_doubles(expected);
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor magnitudes = at::where(should.isfinite(), should.abs(), 0.0);
  const at::Tensor limit = allowed * (magnitudes + magnitudes.max());
  const at::Tensor same = is.eq(should).logical_or(is.isnan().logical_and(should.isnan()));
  const at::Tensor distance = at::where(same, at::zeros_like(is), (is - should).abs());
  const at::Tensor finite = distance.nan_to_num(infinity, infinity);
  return {finite, finite.gt(limit)};
}

}  // namespace

std::optional<Difference> compare(const std::string& name,
                                  const at::Tensor& computed,
                                  const at::Tensor& expected,
                                  std::optional<double> tolerance) {
  const std::string is = describe(computed);
  const std::string should = describe(expected);
  if (is != should) {
    return Difference{.value = name, .form = is + " instead of " + should};
  }
  if (expected.numel() == 0) {
    return std::nullopt;
  }
  const at::ScalarType type = expected.scalar_type();
  const double allowed = tolerance.value_or(default_tolerance(type));
  const Distances found = allowed == 0 && at::isIntegralType(type, true)
                              ? between_integers(computed, expected)
                              : between_numbers(computed, expected, allowed);
  const auto count = found.is_wrong.sum().item<std::int64_t>();
  if (count == 0) {
    return std::nullopt;
  }
  return Difference{.value = name,
                    .largest = found.distance.max().item<double>(),
                    .count = count,
                    .first = found.is_wrong.to(at::kByte).argmax().item<std::int64_t>()};
}

}  // namespace kiln::tool
