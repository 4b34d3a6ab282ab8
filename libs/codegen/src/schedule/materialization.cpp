#include <algorithm>
#include <ranges>

#include "schedule/fusion.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

// Calls `visit` for each tensor that `scalar` reads, once for each read.
void for_each_read(const ScalarPool& pool,
                   ScalarId id,
                   std::unordered_set<ScalarId>& seen,
                   const std::function<void(TensorId)>& visit) {
  if (!seen.insert(id).second) {
    return;
  }
  const Scalar& scalar = pool[id];
  if (scalar.op == ScalarOp::kRead) {
    visit(scalar.tensor);
  }
  const auto descend = [&](ScalarId operand) { for_each_read(pool, operand, seen, visit); };
  std::ranges::for_each(scalar.operands, descend);
  for (const Index& index : scalar.indices) {
    for_each_computed(index, descend);
  }
}

int body_cost(const ScalarPool& pool, ScalarId id, std::unordered_set<ScalarId>& seen) {
  if (!seen.insert(id).second) {
    return 0;
  }
  const Scalar& scalar = pool[id];
  int cost = operation_cost(scalar.op);
  for (const ScalarId operand : scalar.operands) {
    cost += body_cost(pool, operand, seen);
  }
  return cost;
}

// Saving so many operations justifies a kernel of its own.
constexpr std::int64_t kOperationsWorthKernel = 1 << 18;

std::int64_t size_of(const LoopProgram& program, const Tensor& tensor) {
  return program.hint.at_scale(domain_size(tensor));
}

// Whether a reader of `uses` elements would recompute each element of `tensor` too often. What is
// constant along a row is computed once per row anyway.
bool is_recomputed_too_often(const LoopProgram& program,
                             const Tensor& tensor,
                             int cost,
                             std::int64_t uses) {
  constexpr int kMinCost = 12;
  constexpr std::int64_t kMinReuse = 4;
  const std::int64_t own = size_of(program, tensor);
  return cost >= kMinCost && own > 0 && uses >= kMinReuse * own && !tensor.sizes.empty() &&
         !(tensor.sizes.back() == Expr(1)) && (uses - own) * cost >= kOperationsWorthKernel;
}

}  // namespace

std::unordered_set<TensorId> find_materialized(const LoopProgram& program,
                                               const Requirements& requirements,
                                               const FusionLimits& limits) {
  const std::size_t count = program.tensors.size();
  std::vector<bool> live(count);
  std::vector<std::vector<TensorId>> reads(count);
  for (const TensorId tensor : requirements.tensors) {
    live[tensor.index()] = true;
  }
  for (std::size_t i = count; i-- > 0;) {
    const Tensor& tensor = program.tensors[i];
    if (!live[i] || tensor.kind == Tensor::Kind::kMemory) {
      continue;
    }
    std::unordered_set<ScalarId> seen;
    for_each_root(tensor, [&](ScalarId root) {
      for_each_read(program.pool, root, seen, [&](TensorId source) {
        live[source.index()] = true;
        reads[i].push_back(source);
      });
    });
  }

  // Cost of one element and distinct tensors read for it, down to the next materialized one.
  std::unordered_set<TensorId> materialized;
  std::vector<int> uses(count);
  std::vector<std::int64_t> widest(count);  // Elements of its largest reader.
  for (std::size_t i = count; i-- > 0;) {
    if (!live[i]) {
      continue;
    }
    std::ranges::sort(reads[i]);
    const auto [first, last] = std::ranges::unique(reads[i]);
    reads[i].erase(first, last);
    // A use of a view is a use of the tensor it views.
    for (const TensorId source : reads[i]) {
      const bool is_view = program.tensors[i].is_view;
      uses[source.index()] += is_view ? std::max(1, uses[i]) : 1;
      widest[source.index()] = std::max(widest[source.index()],
                                        is_view ? widest[i] : size_of(program, program.tensors[i]));
    }
    if (const TensorId reread = program.tensors[i].reread; reread.valid()) {
      ++uses[reread.index()];
    }
  }
  std::vector<int> cost(count);
  std::vector<int> loads(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor& tensor = program.tensors[i];
    if (!live[i] || tensor.kind == Tensor::Kind::kMemory) {
      loads[i] = 1;
      continue;
    }
    std::unordered_set<ScalarId> seen;
    cost[i] = body_cost(program.pool, tensor.body, seen);
    for (const TensorId source : reads[i]) {
      cost[i] += cost[source.index()];
      loads[i] += loads[source.index()];
    }
    const bool required = requirements.tensors.contains(TensorId(i));
    const bool expensive =
        !tensor.is_view && uses[i] > 1 && (cost[i] > limits.max_recompute_cost || loads[i] > 1);
    // An expression with too many loads is split: its kernel would run out of registers.
    const bool large = !tensor.is_view && loads[i] > limits.max_loads;
    const bool repeated =
        !tensor.is_view && is_recomputed_too_often(program, tensor, cost[i], widest[i]);
    const bool looped = tensor.kind == Tensor::Kind::kReduction || tensor.is_sequential();
    if (required || looped || expensive || large || repeated || tensor.is_concatenation) {
      materialized.insert(TensorId(i));
      cost[i] = 0;
      loads[i] = 1;
    }
  }
  return materialized;
}

void Sources::collect(ScalarId id,
                      std::unordered_set<ScalarId>& seen,
                      std::unordered_set<TensorId>& result) {
  for_each_read(program_.pool, id, seen, [&](TensorId tensor) {
    if (program_[tensor].kind == Tensor::Kind::kMemory || materialized_.contains(tensor)) {
      result.insert(tensor);
      return;
    }
    for (const TensorId source : of(tensor)) {
      result.insert(source);
    }
  });
}

const std::vector<TensorId>& Sources::of(TensorId tensor) {
  if (const auto found = found_.find(tensor); found != found_.end()) {
    return found->second;
  }
  std::unordered_set<TensorId> result;
  std::unordered_set<ScalarId> seen;
  if (program_[tensor].kind != Tensor::Kind::kMemory) {
    for_each_root(program_[tensor], [&](ScalarId root) { collect(root, seen, result); });
  }
  std::vector<TensorId> sorted(result.begin(), result.end());
  std::ranges::sort(sorted);
  return found_.emplace(tensor, std::move(sorted)).first->second;
}

}  // namespace kiln::codegen
