// Tensors of the same geometry with other elements.

#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace kiln::capture {

/// How far other data goes from what was given, most first.
enum class Perturbation {
  kEverything,      ///< Floating point as below, booleans negated, integers in another order.
  kFloatingPoint,   ///< Other signs and sizes; zero too is another number.
  kSmallerNumbers,  ///< Floating point a little smaller: signs, order and definiteness stay.
};

/// Gives each memory that one of `tensors` lies in other elements, in place and unseen by autograd.
void perturb(const std::vector<at::Tensor>& tensors, Perturbation kind);

/// Other elements for `tensors` as long as it lives.
class ScopedPerturbation {
 public:
  ScopedPerturbation(const std::vector<at::Tensor>& tensors, Perturbation kind);
  ~ScopedPerturbation();
  ScopedPerturbation(const ScopedPerturbation&) = delete;
  ScopedPerturbation& operator=(const ScopedPerturbation&) = delete;

 private:
  struct Saved {
    at::Tensor bytes;
    at::Tensor copy;
  };
  std::vector<Saved> saved_;
};

}  // namespace kiln::capture
