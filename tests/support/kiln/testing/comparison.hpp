// What differs between two tensors, said in sentences.

#pragma once

#include <torch/torch.h>

#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace kiln::testing {

/// How far floating-point results may be apart: fused kernels round at other places than eager's.
struct Tolerance {
  double relative = 1e-4;
  double absolute = 1e-5;
};

inline bool close(const torch::Tensor& a, const torch::Tensor& b, Tolerance tolerance) {
  if (!a.defined() || !b.defined()) {
    return a.defined() == b.defined();
  }
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) {
    return false;
  }
  if (!a.is_floating_point() && !a.is_complex()) {
    return torch::equal(a, b);
  }
  return torch::allclose(
      a.detach(), b.detach(), tolerance.relative, tolerance.absolute, /*equal_nan=*/true);
}

/// Collects what differs between two sides, a sentence for each.
class Comparison {
 public:
  explicit Comparison(Tolerance tolerance) : tolerance_(tolerance) {}

  /// Notes "`where`: `what` `found`, not `expected`" unless they are equal.
  template <class T>
  void same(const std::string& where, const char* what, const T& found, const T& expected) {
    if (!(found == expected)) {
      std::ostringstream text;
      text << std::boolalpha << where << ": " << what << " " << found << ", not " << expected;
      differences_.push_back(text.str());
    }
  }

  void same_elements(const std::string& where,
                     const torch::Tensor& found,
                     const torch::Tensor& expected) {
    if (!close(found, expected, tolerance_)) {
      differences_.push_back(where + ": the elements differ");
    }
  }

  /// Notes which side alone throws. Returns whether neither does.
  bool same_error(const std::string& where,
                  const std::optional<std::string>& found,
                  const std::optional<std::string>& expected) {
    if (expected && !found) {
      differences_.push_back(where + ": only eager throws: " + *expected);
    }
    if (found && !expected) {
      differences_.push_back(where + ": only compiled throws: " + *found);
    }
    return !found && !expected;
  }

  void same_tensor(const std::string& where,
                   const torch::Tensor& found,
                   const torch::Tensor& expected) {
    same(where, "defined", found.defined(), expected.defined());
    if (!found.defined() || !expected.defined()) {
      return;
    }
    same(where, "dtype", found.scalar_type(), expected.scalar_type());
    same(where, "shape", found.sizes(), expected.sizes());
    if (expected.layout() == torch::kStrided && found.layout() == torch::kStrided) {
      same(where, "strides", found.strides(), expected.strides());
    }
    same(where, "layout", found.layout(), expected.layout());
    same(where, "is_conj", found.is_conj(), expected.is_conj());
    same(where, "is_neg", found.is_neg(), expected.is_neg());
    same(where, "requires_grad", found.requires_grad(), expected.requires_grad());
    same(where, "is_leaf", found.is_leaf(), expected.is_leaf());
    same(where, "is_inference", found.is_inference(), expected.is_inference());
    same_elements(where, found, expected);
  }

  [[nodiscard]] const std::vector<std::string>& differences() const { return differences_; }

 private:
  Tolerance tolerance_;
  std::vector<std::string> differences_;
};

}  // namespace kiln::testing
