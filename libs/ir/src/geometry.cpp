#include "geometry.hpp"

#include <algorithm>
#include <numeric>

#include "argument.hpp"

namespace kiln::ir {

bool is_contiguous(const TensorMeta& meta) {
  Expr expected = 1;
  for (std::size_t i = meta.sizes.size(); i-- > 0;) {
    if (meta.sizes[i] != Expr(1)) {
      if (meta.strides[i] != expected) {
        return element_count(meta.sizes) == Expr(0);
      }
      expected = expected * meta.sizes[i];
    }
  }
  return true;
}

std::vector<std::size_t> memory_order(const TensorMeta& meta) {
  std::vector<std::size_t> order(meta.sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto left = meta.strides[a].constant();
    const auto right = meta.strides[b].constant();
    if (left && right) {
      return *left > *right;
    }
    // Of two strides the one that is a multiple of the other is the outer one.
    return left != right && meta.strides[b] != Expr(0) &&
           mod(meta.strides[a], meta.strides[b]) == Expr(0) &&
           mod(meta.strides[b], meta.strides[a]) != Expr(0);
  });
  return order;
}

bool is_dense(const TensorMeta& meta) {
  const std::vector<std::size_t> order = memory_order(meta);
  Expr expected = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    if (meta.sizes[order[i]] != Expr(1)) {
      if (meta.strides[order[i]] != expected) {
        return false;
      }
      expected = expected * meta.sizes[order[i]];
    }
  }
  return true;
}

bool is_expanded(const TensorMeta& meta) {
  for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
    if (meta.strides[i] == Expr(0) && meta.sizes[i] != Expr(0) && meta.sizes[i] != Expr(1)) {
      return true;
    }
  }
  return false;
}

bool may_overlap(const TensorMeta& meta) {
  const std::vector<std::size_t> order = memory_order(meta);
  std::int64_t reach = 1;  // Of the dimensions further in.
  for (std::size_t i = order.size(); i-- > 0;) {
    const Expr& size = meta.sizes[order[i]];
    const Expr& stride = meta.strides[order[i]];
    if (size == Expr(1)) {
      continue;
    }
    if (!size.is_constant() || !stride.is_constant()) {
      // Symbolic strides are products of sizes: they step over the inner dimensions.
      if (stride == Expr(0)) {
        return true;
      }
      continue;
    }
    if (*stride.constant() < reach) {
      return true;
    }
    reach += *stride.constant() * (*size.constant() - 1);
  }
  return false;
}

std::vector<Expr> strides_like(const TensorMeta& meta) {
  const TensorMeta* only[] = {&meta};
  return is_dense(meta) ? meta.strides : pointwise_strides(meta.sizes, only);
}

TensorMeta copy_of(TensorMeta meta) {
  if (meta.conjugate || meta.negative) {
    meta.strides = strides_like(meta);
    meta.offset = 0;
    meta.conjugate = meta.negative = false;
  }
  return meta;
}

namespace {

/// Positive if dimension `a` of a result is further out in memory than `b`, as `operands` have
/// them; 0 if none of them says.
int compare_dimensions(std::size_t a,
                       std::size_t b,
                       std::span<const Expr> sizes,
                       std::span<const TensorMeta* const> operands) {
  for (const TensorMeta* operand : operands) {
    const std::size_t added = sizes.size() - operand->sizes.size();
    const auto stride = [&](std::size_t dimension) -> std::optional<std::int64_t> {
      if (dimension < added) {
        return 0;
      }
      const bool broadcast =
          operand->sizes[dimension - added] == Expr(1) && sizes[dimension] != Expr(1);
      return broadcast ? 0 : operand->strides[dimension - added].constant();
    };
    const auto left = stride(a);
    const auto right = stride(b);
    if (!left || !right || *left == 0 || *right == 0) {
      continue;
    }
    if (*left != *right) {
      return *left > *right ? 1 : -1;
    }
    if (sizes[a].constant().value_or(0) > sizes[b].constant().value_or(0)) {
      return 1;
    }
  }
  return 0;
}

}  // namespace

std::vector<Expr> pointwise_strides(std::span<const Expr> sizes,
                                    std::span<const TensorMeta* const> operands) {
  // From the innermost dimension to the outermost; an insertion sort, because what the comparison
  // leaves open depends on the order of the comparisons.
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  for (std::size_t i = 1; i < order.size(); ++i) {
    std::size_t moved = i;
    for (std::size_t j = i; j-- > 0;) {
      const int comparison = compare_dimensions(order[j], order[moved], sizes, operands);
      if (comparison > 0) {
        std::swap(order[j], order[moved]);
        moved = j;
      } else if (comparison < 0) {
        break;
      }
    }
  }
  std::vector<Expr> strides(sizes.size());
  Expr stride = 1;
  for (const std::size_t dimension : order) {
    strides[dimension] = stride;
    stride = sizes[dimension].constant() == 0 ? stride : stride * sizes[dimension];
  }
  return strides;
}

std::optional<std::vector<Expr>> view_strides(const TensorMeta& meta, std::span<const Expr> sizes) {
  if (element_count(meta.sizes) == Expr(0)) {
    return contiguous_strides(sizes);
  }
  // Runs of dimensions that are contiguous among themselves can be split differently, but not
  // across a gap.
  std::vector<Expr> strides(sizes.size());
  std::size_t next = sizes.size();
  Expr chunk_size = 1;
  Expr chunk_stride = meta.sizes.empty() ? Expr(1) : meta.strides.back();
  for (std::size_t i = meta.sizes.size(); i-- > 0;) {
    chunk_size = chunk_size * meta.sizes[i];
    const bool ends = i == 0 || (meta.sizes[i - 1] != Expr(1) &&
                                 meta.strides[i - 1] != chunk_size * chunk_stride);
    if (!ends) {
      continue;
    }
    Expr filled = 1;
    while (next > 0 && (filled != chunk_size || sizes[next - 1] == Expr(1))) {
      --next;
      strides[next] = filled * chunk_stride;
      filled = filled * sizes[next];
    }
    if (filled != chunk_size) {
      return std::nullopt;
    }
    if (i > 0) {
      chunk_stride = meta.strides[i - 1];
      chunk_size = 1;
    }
  }
  while (next > 0 && sizes[next - 1] == Expr(1)) {
    --next;
    strides[next] = 1;
  }
  return next == 0 ? std::optional(strides) : std::nullopt;
}

std::optional<Extent> extent_of(const TensorMeta& meta) {
  const auto offset = meta.offset.constant();
  if (!offset) {
    return std::nullopt;
  }
  Extent extent{*offset, *offset + 1};
  for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
    const auto size = meta.sizes[i].constant();
    const auto stride = meta.strides[i].constant();
    if (!size || !stride) {
      return std::nullopt;
    }
    if (*size == 0) {
      return Extent{*offset, *offset};
    }
    extent.end += (*size - 1) * *stride;
  }
  return extent;
}

namespace {

/// Calls `visit` with the position of every element.
template <class Visit>
void for_each_element(const TensorMeta& meta,
                      std::size_t dimension,
                      std::int64_t position,
                      const Visit& visit) {
  if (dimension == meta.sizes.size()) {
    visit(position);
    return;
  }
  for (std::int64_t i = 0; i < *meta.sizes[dimension].constant(); ++i) {
    for_each_element(
        meta, dimension + 1, position + i * *meta.strides[dimension].constant(), visit);
  }
}

}  // namespace

bool hold_elements(std::span<const TensorMeta* const> outer, const TensorMeta& inner) {
  constexpr std::int64_t kMost = 1 << 22;
  const auto inside = extent_of(inner);
  if (!inside || inside->end - inside->begin > kMost ||
      element_count(inner.sizes).constant() > kMost) {
    return false;
  }
  std::vector<bool> present(static_cast<std::size_t>(inside->end - inside->begin), false);
  for (const TensorMeta* holder : outer) {
    if (!extent_of(*holder) || element_count(holder->sizes).constant() > kMost) {
      return false;
    }
    for_each_element(*holder, 0, *holder->offset.constant(), [&](std::int64_t position) {
      if (position >= inside->begin && position < inside->end) {
        present[static_cast<std::size_t>(position - inside->begin)] = true;
      }
    });
  }
  bool all = true;
  for_each_element(inner, 0, *inner.offset.constant() - inside->begin, [&](std::int64_t position) {
    all = all && present[static_cast<std::size_t>(position)];
  });
  return all;
}

bool same_strides(const TensorMeta& a, const TensorMeta& b) {
  for (std::size_t i = 0; i < a.sizes.size(); ++i) {
    if (a.sizes[i] != Expr(1) && a.strides[i] != b.strides[i]) {
      return false;
    }
  }
  return true;
}

bool same_geometry(const TensorMeta& a, const TensorMeta& b) {
  return a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides &&
         a.offset == b.offset && a.conjugate == b.conjugate && a.negative == b.negative;
}

std::size_t hash_of_geometry(const TensorMeta& meta) {
  std::size_t seed = static_cast<std::size_t>(meta.dtype) * 4 + (meta.conjugate ? 2U : 0U) +
                     (meta.negative ? 1U : 0U);
  seed = combine_hash(seed, meta.offset.hash());
  for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
    seed = combine_hash(seed, meta.sizes[i].hash());
    seed = combine_hash(seed, meta.strides[i].hash());
  }
  return seed;
}

namespace {

int category(DType dtype) {
  return dtype == DType::kBool ? 0 : is_integral(dtype) ? 1 : is_floating_point(dtype) ? 2 : 3;
}

bool is_unsigned(DType dtype) {
  return dtype == DType::kUInt8 || dtype == DType::kUInt16 || dtype == DType::kUInt32 ||
         dtype == DType::kUInt64;
}

}  // namespace

DType promote(DType a, DType b) {
  if (a == b) {
    return a;
  }
  if (category(a) != category(b)) {
    const DType higher = category(a) > category(b) ? a : b;
    const DType lower = higher == a ? b : a;
    if (category(higher) != 3 || category(lower) < 2) {
      return higher;
    }
    // A complex type whose parts hold the float.
    return lower == DType::kFloat64   ? DType::kComplex128
           : size_of(higher) >= 8     ? higher
           : lower == DType::kFloat16 ? higher
                                      : DType::kComplex64;
  }
  if (category(a) == 1 && is_unsigned(a) != is_unsigned(b)) {
    const DType with_sign = is_unsigned(a) ? b : a;
    const DType without = is_unsigned(a) ? a : b;
    if (size_of(with_sign) > size_of(without)) {
      return with_sign;
    }
    return size_of(without) == 1   ? DType::kInt16
           : size_of(without) == 2 ? DType::kInt32
                                   : DType::kInt64;
  }
  if (size_of(a) == size_of(b)) {
    return DType::kFloat32;  // float16 with bfloat16
  }
  return size_of(a) > size_of(b) ? a : b;
}

DType promote(std::span<const TensorMeta* const> operands) {
  // A tensor without dimensions counts only where its kind of number is a higher one.
  std::optional<DType> with_dimensions;
  std::optional<DType> without;
  for (const TensorMeta* operand : operands) {
    std::optional<DType>& slot = operand->sizes.empty() ? without : with_dimensions;
    slot = slot ? promote(*slot, operand->dtype) : operand->dtype;
  }
  if (!with_dimensions || !without) {
    return with_dimensions ? *with_dimensions : without.value_or(DType::kFloat32);
  }
  return category(*without) > category(*with_dimensions) ? promote(*with_dimensions, *without)
                                                         : *with_dimensions;
}

}  // namespace kiln::ir
