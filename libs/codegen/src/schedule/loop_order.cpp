// The loop order of a tensor: along the dims in which its operands are contiguous.

#include <algorithm>
#include <functional>
#include <numeric>

#include "loop/strided_view.hpp"
#include "schedule/fusion_group.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

// A reduction of everything up to this size is one row, which keeps it fusable with what uses its
// result; a larger one is split among threads.
constexpr std::int64_t kMaxSingleRow = 1 << 16;

// Counts, for each variable of `body`, the reads that are contiguous along it.
void count_contiguous(const LoopProgram& program,
                      ScalarId body,
                      const std::vector<Index>& replacement,
                      Extents extents,
                      std::vector<int>& votes,
                      int depth) {
  const Scalar& scalar = program.pool[body];
  if (scalar.op == ScalarOp::kRead) {
    const Tensor& source = program[scalar.tensor];
    std::vector<Index> indices;
    for (const Index& index : scalar.indices) {
      indices.push_back(substitute(index, replacement, extents, [](ScalarId id) { return id; }));
    }
    if (source.is_view && depth < 8) {
      count_contiguous(program, source.body, indices, extents, votes, depth + 1);
      return;
    }
    const Index address = address_of(source, indices);
    // An operand that varies along more dims is larger, and counts for more.
    int weight = 1;
    for (std::size_t i = 0; i < votes.size(); ++i) {
      weight *= address.mentions(static_cast<int>(i)) ? 16 : 1;
    }
    for (std::size_t i = 0; i < votes.size(); ++i) {
      const std::optional<Expr> factor = address.factor_of(static_cast<int>(i));
      if (factor && *factor == Expr(1) && !(extents[i] == Expr(1))) {
        votes[i] += std::min(weight, 1 << 16);
      }
    }
    return;
  }
  for (const ScalarId operand : scalar.operands) {
    count_contiguous(program, operand, replacement, extents, votes, depth + 1);
  }
}

// The dims from the one with the largest stride to the smallest. Those of size 1 have meaningless
// strides and stay where they are. Symbolic strides are compared by their hints: any order is
// correct.
std::vector<std::size_t> memory_order(const LoopProgram& program, const Tensor& tensor) {
  std::vector<std::size_t> order(tensor.sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<std::size_t> moving;
  for (const std::size_t dim : order) {
    if (!(tensor.sizes[dim] == Expr(1))) {
      moving.push_back(dim);
    }
  }
  const std::vector<std::size_t> places = moving;
  std::ranges::stable_sort(moving, std::greater<>(), [&](std::size_t dim) {
    return program.hint.at_scale(tensor.strides[dim]);
  });
  for (std::size_t i = 0; i < places.size(); ++i) {
    order[places[i]] = moving[i];
  }
  return order;
}

}  // namespace

Expr domain_size(const Tensor& tensor) {
  return element_count(tensor.sizes) * element_count(tensor.reduced);
}

LoopOrder choose_loop_order(const LoopProgram& program, TensorId id) {
  const Tensor& tensor = program[id];
  if (tensor.kind != Tensor::Kind::kReduction) {
    return {IterationDomain::kFull, memory_order(program, tensor)};
  }
  const std::vector<Expr> domain = tensor.domain();
  const std::size_t kept = tensor.sizes.size();
  std::vector<std::size_t> order(domain.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (element_count(tensor.sizes) == Expr(1)) {
    const auto size = element_count(tensor.reduced).constant();
    return {size && *size <= kMaxSingleRow ? IterationDomain::kRow : IterationDomain::kSingle,
            order};
  }
  if (element_count(tensor.reduced) == Expr(1)) {
    return {IterationDomain::kRow, order};
  }
  std::vector<Index> replacement;
  for (std::size_t i = 0; i < domain.size(); ++i) {
    replacement.push_back(Index::variable(static_cast<int>(i)));
  }
  std::vector<int> votes(domain.size());
  count_contiguous(program, tensor.body, replacement, domain, votes, 0);
  const int kept_votes =
      std::accumulate(votes.begin(), votes.begin() + static_cast<std::ptrdiff_t>(kept), 0);
  const int reduced_votes =
      std::accumulate(votes.begin() + static_cast<std::ptrdiff_t>(kept), votes.end(), 0);
  if (kept_votes <= reduced_votes) {
    return {IterationDomain::kRow, order};
  }
  std::ranges::rotate(order, order.begin() + static_cast<std::ptrdiff_t>(kept));
  return {IterationDomain::kColumn, order};
}

}  // namespace kiln::codegen
