#include "perturbation.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <cstdint>
#include <unordered_set>

namespace kiln::capture {
namespace {

// The whole memory of `tensor`, as elements of `dtype`. A version counter of its own.
at::Tensor memory_as(const at::Tensor& tensor, c10::ScalarType dtype) {
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  const auto count = bytes / static_cast<std::int64_t>(c10::elementSize(dtype));
  at::Tensor flat = at::empty({0}, at::TensorOptions().dtype(dtype).device(tensor.device()));
  return flat.set_(tensor.storage(), 0, {count}, {1});
}

template <class Visit>
void for_each_memory(const std::vector<at::Tensor>& tensors, Visit&& visit) {
  const at::NoGradGuard no_grad;
  std::unordered_set<const c10::StorageImpl*> seen;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.has_storage() && !tensor.is_meta() &&
        tensor.storage().nbytes() != 0 &&
        seen.insert(tensor.storage().unsafeGetStorageImpl()).second) {
      visit(tensor);
    }
  }
}

bool is_changeable_float(c10::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf ||
         dtype == at::kBFloat16 || dtype == at::kComplexFloat || dtype == at::kComplexDouble;
}

bool is_changeable_integer(c10::ScalarType dtype) {
  return c10::isIntegralType(dtype, /*includeBool=*/false) && dtype != at::kUInt16 &&
         dtype != at::kUInt32 && dtype != at::kUInt64;
}

// Another order keeps every index within bounds; so does one less, where all are the same.
void change_integers(at::Tensor flat) {
  const at::Tensor rolled = flat.roll(1);
  if (!at::equal(rolled, flat)) {
    flat.copy_(rolled);
  } else if (flat.min().item<std::int64_t>() > 0) {
    flat.sub_(1);
  }
}

void change(const at::Tensor& tensor, Perturbation kind) {
  const c10::ScalarType dtype = tensor.scalar_type();
  at::Tensor flat = memory_as(tensor, dtype);
  if (is_changeable_float(dtype)) {
    flat.mul_(kind == Perturbation::kSmallerNumbers ? 0.78125 : -0.78125);
    if (kind != Perturbation::kSmallerNumbers) {
      flat.add_(0.53125);
    }
  } else if (kind == Perturbation::kEverything && dtype == at::kBool) {
    flat.logical_not_();
  } else if (kind == Perturbation::kEverything && is_changeable_integer(dtype) &&
             flat.numel() == tensor.numel()) {
    change_integers(flat);
  }
}

}  // namespace

void perturb(const std::vector<at::Tensor>& tensors, Perturbation kind) {
  for_each_memory(tensors, [&](const at::Tensor& tensor) { change(tensor, kind); });
}

ScopedPerturbation::ScopedPerturbation(const std::vector<at::Tensor>& tensors, Perturbation kind) {
  for_each_memory(tensors, [&](const at::Tensor& tensor) {
    at::Tensor bytes = memory_as(tensor, at::kByte);
    at::Tensor copy = bytes.clone();
    saved_.push_back({std::move(bytes), std::move(copy)});
    change(tensor, kind);
  });
}

ScopedPerturbation::~ScopedPerturbation() {
  const at::NoGradGuard no_grad;
  for (Saved& saved : saved_) {
    saved.bytes.copy_(saved.copy);
  }
}

}  // namespace kiln::capture
