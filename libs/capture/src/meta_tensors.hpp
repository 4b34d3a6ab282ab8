// What meta rules are written with.

#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <optional>
#include <vector>

#include "dry_run.hpp"

namespace kiln::capture {

/// What a meta rule returns: the results, or nothing where the rule does not hold.
using MetaResults = std::optional<std::vector<at::Tensor>>;

/// A contiguous meta tensor.
inline at::Tensor dense_meta(at::IntArrayRef sizes, at::ScalarType type) {
  return at::empty(sizes, at::TensorOptions().dtype(type).device(at::kMeta));
}

/// Contiguous, and in no other memory format as well.
inline bool is_row_major(const at::Tensor& tensor) {
  return is_plain(tensor) && tensor.is_contiguous() &&
         tensor.suggest_memory_format() == at::MemoryFormat::Contiguous;
}

}  // namespace kiln::capture
