#include "inner_loop.hpp"

#include "row_temporaries.hpp"
#include "segments.hpp"

#include <algorithm>
#include <set>

namespace kiln::codegen {

using ir::Expr;

namespace {

// Chunks of rows that have accumulators of their own: enough for any number of threads, and always
// the same, so that sums do not depend on how many threads there are.
constexpr std::int64_t kMostChunks = 16;

void for_each_address(const ScalarPool& pool,
                      ScalarId id,
                      std::set<ScalarId>& seen,
                      const std::function<void(const Index&)>& visit) {
  if (!seen.insert(id).second) {
    return;
  }
  const Scalar& scalar = pool[id];
  if (scalar.op == ScalarOp::kLoad) {
    visit(scalar.indices[0]);
  }
  const auto descend = [&](ScalarId operand) { for_each_address(pool, operand, seen, visit); };
  std::ranges::for_each(scalar.operands, descend);
  for (const Index& index : scalar.indices) {
    for_each_computed(index, descend);
  }
}

// Whether every load and store is at a fixed stride along the inner loop.
bool is_even(const LoopProgram& program, const LoopKernel& kernel) {
  bool even = true;
  Levels levels(program.pool, kernel);
  const auto check = [&](const Index& address) {
    even = even && address.factor_of(kInner).has_value();
    for_each_computed(address, [&](ScalarId id) { even = even && levels.of(id) < 3; });
  };
  std::set<ScalarId> seen;
  for (const LoopKernel::Reduce& reduce : kernel.reduces) {
    for_each_address(program.pool, reduce.body, seen, check);
  }
  for (std::size_t i = 0; i < kernel.stores.size(); ++i) {
    check(kernel.stores[i].address);
    for (const Segment& segment : kernel.segments) {
      for_each_address(program.pool, segment.values[i], seen, check);
    }
    if (kernel.segments.empty()) {
      for_each_address(program.pool, kernel.stores[i].value, seen, check);
    }
  }
  return even;
}

// Lengths that end where some member's dims do, longest first; each divides `row`.
std::vector<std::int64_t> candidates(const LoopProgram& program,
                                     const FusionPlan& plan,
                                     const Group& group,
                                     std::int64_t row) {
  std::set<std::int64_t, std::greater<>> lengths;
  const auto add_suffixes = [&](const std::vector<Expr>& sizes) {
    std::int64_t length = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      length *= sizes[i].constant().value_or(1);
      if (length > 1 && length < row && row % length == 0) {
        lengths.insert(length);
      }
    }
  };
  for (const TensorId member : group.members) {
    const Tensor& tensor = program[member];
    const std::vector<Expr> domain = tensor.domain();
    std::vector<Expr> ordered;
    for (const std::size_t dim : plan.placements.at(member).order) {
      ordered.push_back(domain[dim]);
    }
    add_suffixes(ordered);
  }
  // Dims of what is read may divide a row where the members' own do not.
  for (const Tensor& tensor : program.tensors) {
    if (lengths.size() < 16) {
      add_suffixes(tensor.sizes);
    }
  }
  return {lengths.begin(), lengths.end()};
}

int choose_chunks(const LoopKernel& kernel) {
  const std::optional<std::int64_t> rows = kernel.extents[kOuter].constant();
  const std::optional<std::int64_t> row =
      (kernel.extents[kMiddle] * kernel.extents[kInner]).constant();
  if (!rows || !row || *rows * *row < 1 << 15) {
    return 1;
  }
  return static_cast<int>(std::clamp<std::int64_t>(*rows / 8, 1, kMostChunks));
}

}  // namespace

std::optional<LoopKernel> shape_kernel(LoopProgram& program,
                                       const FusionPlan& plan,
                                       const Group& group) {
  // A vector of fewer elements than this is not worth an even walk.
  constexpr std::int64_t kShortest = 8;
  const auto expand = [&](const Group& shape, std::vector<Expr> extents) {
    Expander expander(program, plan.placements, shape, std::move(extents), plan.anchors);
    std::optional<LoopKernel> kernel = expander.expand(plan.kept);
    if (kernel) {
      kernel->chunks = choose_chunks(*kernel);
      kernel->segments = find_segments(program.pool, *kernel);
    }
    return kernel;
  };
  std::optional<LoopKernel> whole = expand(group, {group.outer, 1, group.inner});
  const std::optional<std::int64_t> row = group.inner.constant();
  if (!whole || !row || is_even(program, *whole)) {
    return whole;
  }
  for (const std::int64_t length : candidates(program, plan, group, *row)) {
    if (length < kShortest) {
      break;
    }
    // Without reductions the rest of a row is rows; with them it is a loop of its own.
    std::vector<Expr> extents{group.outer, *row / length, length};
    Group reshaped = group;
    if (!group.fixed) {
      extents = {group.outer * Expr(*row / length), 1, length};
      reshaped.outer = extents[kOuter];
      reshaped.inner = length;
    }
    std::optional<LoopKernel> kernel = expand(reshaped, extents);
    if (kernel && is_even(program, *kernel)) {
      return kernel;
    }
  }
  return whole;
}

}  // namespace kiln::codegen
