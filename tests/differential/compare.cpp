#include "compare.hpp"

#include <torch/torch.h>

#include <sstream>

namespace kiln::differential {
namespace {

struct Tolerance {
  double relative, absolute;
};

Tolerance tolerance(at::ScalarType dtype, Closeness closeness) {
  if (closeness == Closeness::kChain) {
    return {1e-8, 1e-8};
  }
  if (closeness == Closeness::kNarrowChain) {
    return {2e-3, 2e-3};
  }
  const bool sum = closeness == Closeness::kSum;
  switch (dtype) {
    case at::kDouble: return sum ? Tolerance{1e-11, 1e-11} : Tolerance{1e-13, 1e-15};
    // Two units in the last place of the type: it is rounded once from float.
    case at::kHalf: return sum ? Tolerance{4e-3, 4e-3} : Tolerance{2e-3, 1.2e-7};
    case at::kBFloat16: return sum ? Tolerance{3e-2, 3e-2} : Tolerance{1.6e-2, 1e-38};
    default: return sum ? Tolerance{2e-5, 2e-5} : Tolerance{2e-6, 1e-38};
  }
}

bool same_strides(const at::Tensor& a, const at::Tensor& b) {
  for (std::int64_t i = 0; a.numel() > 0 && i < a.dim(); ++i) {
    if (a.size(i) != 1 && a.stride(i) != b.stride(i)) {
      return false;
    }
  }
  return true;
}

// Where `found` may not stand for `expected`.
at::Tensor mismatches(const at::Tensor& expected, const at::Tensor& found, Closeness closeness) {
  const at::ScalarType dtype = expected.scalar_type();
  if (!at::isFloatingType(dtype)) {
    return expected != found;
  }
  const at::Tensor both_nan = expected.isnan() & found.isnan();
  const at::Tensor a = expected.to(at::kDouble);
  const at::Tensor b = found.to(at::kDouble);
  const at::Tensor equal = a == b;
  const bool narrow = dtype == at::kHalf || dtype == at::kBFloat16;
  if (closeness == Closeness::kAnyZero) {
    return ~(equal | both_nan);
  }
  if (closeness == Closeness::kExact || (closeness == Closeness::kRounded && !narrow)) {
    return ~((equal & (a.signbit() == b.signbit())) | both_nan);
  }
  const auto [relative, absolute] = tolerance(dtype, closeness);
  const double largest =
      closeness >= Closeness::kSum && a.numel() > 0
          ? std::max(1.0, a.abs().masked_fill(~a.isfinite(), 0).max().item<double>())
          : 1.0;
  const at::Tensor close = (a - b).abs() <= a.abs() * relative + absolute * largest;
  const at::Tensor wrong = ~(equal | both_nan | (close & a.isfinite()));
  const bool signs_count = closeness < Closeness::kSum;
  return signs_count ? wrong | (equal & (a.signbit() != b.signbit())) : wrong;
}

}  // namespace

std::optional<std::string> difference(const at::Tensor& expected,
                                      const at::Tensor& found,
                                      Closeness closeness) {
  std::ostringstream text;
  if (expected.defined() != found.defined()) {
    return "only one of them is there";
  }
  if (!expected.defined()) {
    return std::nullopt;
  }
  if (expected.scalar_type() != found.scalar_type() || expected.sizes() != found.sizes() ||
      (closeness < Closeness::kChain && !same_strides(expected, found))) {
    text << "expected " << expected.scalar_type() << expected.sizes() << " strides "
         << expected.strides() << ", found " << found.scalar_type() << found.sizes() << " strides "
         << found.strides();
    return text.str();
  }
  if (expected.is_complex()) {
    return difference(at::view_as_real(expected.resolve_conj()),
                      at::view_as_real(found.resolve_conj()),
                      closeness);
  }
  const at::Tensor wrong = mismatches(expected, found, closeness).reshape(-1).nonzero().reshape(-1);
  if (wrong.numel() == 0) {
    return std::nullopt;
  }
  const auto at = wrong[0].item<std::int64_t>();
  text.precision(17);
  text << wrong.numel() << " of " << expected.numel() << " elements differ; element " << at
       << ": expected " << expected.reshape(-1)[at].to(at::kDouble).item<double>() << ", found "
       << found.reshape(-1)[at].to(at::kDouble).item<double>() << " (" << expected.scalar_type()
       << expected.sizes() << ")";
  return text.str();
}

}  // namespace kiln::differential
