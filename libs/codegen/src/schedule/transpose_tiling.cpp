#include "schedule/transpose_tiling.hpp"

#include <algorithm>
#include <set>

#include "schedule/exact_quotient.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

void collect_loads(const ScalarPool& pool,
                   ScalarId id,
                   std::set<ScalarId>& seen,
                   std::vector<ScalarId>& loads) {
  if (!seen.insert(id).second) {
    return;
  }
  const Scalar& scalar = pool[id];
  if (scalar.op == ScalarOp::kLoad) {
    loads.push_back(id);
  }
  const auto descend = [&](ScalarId operand) { collect_loads(pool, operand, seen, loads); };
  std::ranges::for_each(scalar.operands, descend);
  for (const Index& index : scalar.indices) {
    for_each_computed(index, descend);
  }
}

bool is_contiguous_along(const Index& address, int variable) {
  const std::optional<Expr> factor = address.factor_of(variable);
  bool fixed = true;
  for_each_computed(address, [&](ScalarId) { fixed = false; });
  return fixed && factor && *factor == Expr(1);
}

// Whether the inner loop reads with a stride other than 0 and 1.
bool is_strided(const Index& address) {
  const std::optional<Expr> factor = address.factor_of(kInner);
  return factor && !(*factor == Expr(0)) && !(*factor == Expr(1));
}

// Every store in the order of the loops, and nothing but stores.
bool only_writes_rows(const LoopNest& kernel) {
  return kernel.reduces.empty() && kernel.segments.empty() &&
         std::ranges::all_of(kernel.stores, [](const LoopNest::Store& store) {
           return store.domain == IterationDomain::kFull &&
                  is_contiguous_along(store.address, kInner);
         });
}

}  // namespace

std::vector<ScalarId> loads_of(const ScalarPool& pool, const LoopNest& kernel) {
  std::set<ScalarId> seen;
  std::vector<ScalarId> loads;
  for (const LoopNest::Reduce& reduce : kernel.reduces) {
    collect_loads(pool, reduce.body, seen, loads);
  }
  for (std::size_t i = 0; i < kernel.stores.size(); ++i) {
    for (const Segment& segment : kernel.segments) {
      collect_loads(pool, segment.values[i], seen, loads);
    }
    if (kernel.segments.empty()) {
      collect_loads(pool, kernel.stores[i].value, seen, loads);
    }
  }
  return loads;
}

LoopNest tile_transposes(const LoopProgram& program,
                         const FusionGroup& group,
                         LoopNest kernel,
                         const std::vector<Expr>& lengths,
                         const Expand& expand,
                         const LoopPolicy::Transposes& policy) {
  const auto address = [&](ScalarId load) { return program.pool[load].indices[0]; };
  const Expr rows = kernel.extents[kOuter];
  const Expr row = kernel.extents[kInner];
  if (program.hint.at_scale(rows * row) < policy.min_elements || !only_writes_rows(kernel) ||
      std::ranges::none_of(loads_of(program.pool, kernel),
                           [&](ScalarId load) { return is_strided(address(load)); })) {
    return kernel;
  }
  std::vector<Expr> sides{rows};
  for (const Expr& length : lengths) {
    const std::optional<Expr> side = exact_quotient(length, row);
    if (side && !(*side == Expr(1)) && exact_quotient(rows, *side)) {
      sides.push_back(*side);
    }
  }
  for (const Expr& side : sides) {
    if (program.hint(side) < policy.min_side) {
      continue;
    }
    FusionGroup tile_group = group;
    tile_group.outer = *exact_quotient(rows, side);
    tile_group.inner = side * row;
    std::optional<LoopNest> tiled = expand(tile_group, {tile_group.outer, side, row});
    if (!tiled || !only_writes_rows(*tiled)) {
      continue;
    }
    bool has_strides = true;
    for (const ScalarId load : loads_of(program.pool, *tiled)) {
      has_strides = has_strides && address(load).factor_of(kInner);
      if (is_strided(address(load)) && is_contiguous_along(address(load), kMiddle)) {
        tiled->transposed_loads.push_back(load);
      }
    }
    if (has_strides && !tiled->transposed_loads.empty() &&
        tiled->transposed_loads.size() <= policy.max_loads) {
      return std::move(*tiled);
    }
  }
  return kernel;
}

}  // namespace kiln::codegen
