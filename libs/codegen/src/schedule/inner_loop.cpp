#include "schedule/inner_loop.hpp"

#include "loop/loop_depth.hpp"
#include "schedule/exact_quotient.hpp"
#include "schedule/inliner.hpp"
#include "schedule/segments.hpp"
#include "schedule/transpose_tiling.hpp"

#include <algorithm>
#include <functional>

namespace kiln::codegen {

using ir::Expr;

namespace {

enum class Addresses { kAffine, kComputed };

// Whether every load and store has a constant stride along the inner loop, or repeats elements that
// have. With `Addresses::kComputed`, addresses may also depend on indices read from memory; at
// least no index has to be divided then.
bool has_constant_strides(const LoopProgram& program, const LoopNest& kernel, Addresses addresses) {
  bool constant = true;
  LoopDepths depths(program.pool, kernel);
  const auto check = [&](const Index& address) {
    constant = constant && address.factor_of(kInner).has_value();
    if (addresses == Addresses::kAffine) {
      for_each_computed(
          address, [&](ScalarId id) { constant = constant && depths.of(id) < LoopDepth::kInner; });
    }
  };
  for (const LoopNest::Store& store : kernel.stores) {
    check(store.address);
  }
  for (const ScalarId load : loads_of(program.pool, kernel)) {
    const Index& address = program.pool[load].indices[0];
    if (!kernel.segments.empty() || !repetition_of(address)) {
      check(address);
    }
  }
  return constant;
}

// Lengths that end where some member's dims do, longest first; each divides `row`.
std::vector<Expr> candidates(const LoopProgram& program,
                             const FusionPlan& plan,
                             const FusionGroup& group,
                             const Expr& row) {
  constexpr std::size_t kMaxCandidates = 16;
  std::vector<Expr> lengths;
  const auto add_suffixes = [&](const std::vector<Expr>& sizes) {
    Expr length = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      length = length * sizes[i];
      if (!(length == Expr(0)) && !(length == Expr(1)) && !(length == row) &&
          exact_quotient(row, length) && std::ranges::find(lengths, length) == lengths.end()) {
        lengths.push_back(length);
      }
    }
  };
  for (const TensorId member : group.members) {
    const Tensor& tensor = program[member];
    const std::vector<Expr> domain = tensor.domain();
    std::vector<Expr> ordered;
    for (const std::size_t dim : plan.loop_orders.at(member).dims) {
      ordered.push_back(domain[dim]);
    }
    add_suffixes(ordered);
  }
  // The dims of an operand may divide a row where the members' own do not.
  for (const Tensor& tensor : program.tensors) {
    if (lengths.size() < kMaxCandidates) {
      add_suffixes(tensor.sizes);
    }
  }
  std::ranges::stable_sort(
      lengths, std::greater<>(), [&](const Expr& length) { return program.hint.at_scale(length); });
  return lengths;
}

// The extents of the dims before the scanned one, of it, and of those after it.
std::vector<Expr> scan_loops(const Tensor& tensor, const LoopOrder& order) {
  std::vector<Expr> extents{1, tensor.sizes[tensor.scanned], 1};
  std::size_t part = kOuter;
  for (const std::size_t dim : order.dims) {
    if (dim == tensor.scanned) {
      part = kInner;
    } else {
      extents[part] = extents[part] * tensor.sizes[dim];
    }
  }
  return extents;
}

int choose_reduction_splits(const LoopProgram& program,
                            const LoopNest& kernel,
                            const LoopPolicy::Splits& policy) {
  const bool varies = !kernel.extents[kOuter].is_constant();
  const std::int64_t rows = program.hint.at_scale(kernel.extents[kOuter]);
  const std::int64_t row = program.hint.at_scale(kernel.extents[kMiddle] * kernel.extents[kInner]);
  if (!varies && rows * row < policy.min_elements) {
    return 1;
  }
  const auto reduces_to = [&](IterationDomain domain) {
    return std::ranges::any_of(kernel.reduces,
                               [&](const auto& reduce) { return reduce.result == domain; });
  };
  const bool has_columns = reduces_to(IterationDomain::kColumn);
  const bool any_part = policy.inside_rows && !has_columns && !reduces_to(IterationDomain::kRow);
  const std::int64_t parts =
      any_part ? rows * row / policy.elements_of_part : rows / policy.rows_of_part;
  std::int64_t most = policy.max_parts;
  if (has_columns) {
    most = std::min(
        most, std::max<std::int64_t>(8, policy.max_accumulators / std::max<std::int64_t>(row, 1)));
  }
  return static_cast<int>(std::clamp<std::int64_t>(parts, 1, most));
}

}  // namespace

std::optional<LoopNest> shape_nest(LoopProgram& program,
                                   const FusionPlan& plan,
                                   const FusionGroup& group,
                                   const LoopPolicy& policy) {
  // Fewer elements do not justify a separate loop of a reduction. Elsewhere any constant stride,
  // such as along the three channels of an image, costs less than dividing the index of each
  // element.
  constexpr std::int64_t kMinLength = 8;
  // Of a loop of gathers: below it, dividing the indices costs less.
  constexpr std::int64_t kMinGatherLength = 32;
  const Expand expand = [&](const FusionGroup& shape, std::vector<Expr> extents) {
    Inliner inliner(program, plan.loop_orders, shape, std::move(extents), plan.materialized);
    std::optional<LoopNest> kernel = inliner.expand(plan.kept);
    if (kernel) {
      kernel->reduction_splits = choose_reduction_splits(program, *kernel, policy.splits);
      kernel->segments = find_segments(program, *kernel);
    }
    return kernel;
  };
  if (program[group.members[0]].kind == Tensor::Kind::kScan) {
    return expand(group,
                  scan_loops(program[group.members[0]], plan.loop_orders.at(group.members[0])));
  }
  std::optional<LoopNest> whole = expand(group, {group.outer, 1, group.inner});
  if (!whole || has_constant_strides(program, *whole, Addresses::kAffine)) {
    return whole;
  }
  const std::vector<Expr> lengths = candidates(program, plan, group, group.inner);
  std::optional<LoopNest> with_gathers;
  for (const Expr& length : lengths) {
    if (program.hint.at_scale(length) < kMinLength && group.fixed) {
      break;
    }
    // Without reductions, the other dims of a row become rows; with them, a separate loop.
    const Expr rest = *exact_quotient(group.inner, length);
    std::vector<Expr> extents{group.outer, rest, length};
    FusionGroup reshaped = group;
    if (!group.fixed) {
      extents = {group.outer * rest, 1, length};
      reshaped.outer = extents[kOuter];
      reshaped.inner = length;
    }
    std::optional<LoopNest> kernel = expand(reshaped, extents);
    if (kernel && has_constant_strides(program, *kernel, Addresses::kAffine)) {
      return tile_transposes(
          program, reshaped, std::move(*kernel), lengths, expand, policy.transposes);
    }
    if (kernel && !with_gathers && program.hint.at_scale(length) >= kMinGatherLength &&
        has_constant_strides(program, *kernel, Addresses::kComputed)) {
      with_gathers = std::move(kernel);
    }
  }
  return with_gathers && !has_constant_strides(program, *whole, Addresses::kComputed) ? with_gathers
                                                                                      : whole;
}

}  // namespace kiln::codegen
