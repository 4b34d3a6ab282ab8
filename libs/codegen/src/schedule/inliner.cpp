#include "schedule/inliner.hpp"

#include <algorithm>

#include "kiln/base/error.hpp"
#include "loop/strided_view.hpp"

namespace kiln::codegen {

using ir::Expr;

Inliner::Inliner(LoopProgram& program,
                 const std::unordered_map<TensorId, LoopOrder>& loop_orders,
                 const FusionGroup& group,
                 std::vector<Expr> extents,
                 const std::unordered_set<TensorId>& materialized)
    : program_(program),
      loop_orders_(loop_orders),
      group_(group),
      extents_(std::move(extents)),
      materialized_(materialized),
      members_(group.members.begin(), group.members.end()) {
  kernel_.extents = extents_;
}

Index Inliner::position(IterationDomain domain) const {
  const Index inner = Index::variable(kMiddle) * extents_[kInner] + Index::variable(kInner);
  switch (domain) {
    case IterationDomain::kFull:
      return Index::variable(kOuter) * (extents_[kMiddle] * extents_[kInner]) + inner;
    case IterationDomain::kRow: return Index::variable(kOuter);
    case IterationDomain::kColumn: return inner;
    case IterationDomain::kSingle: break;
  }
  return {};
}

// A variable that runs over one value is that value.
static Index simplified(const Index& index, Extents extents) {
  std::vector<Index> replacement;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    replacement.push_back(extents[i] == Expr(1) ? Index(0) : Index::variable(static_cast<int>(i)));
  }
  return substitute(index, replacement, extents, [](ScalarId id) { return id; });
}

std::vector<Index> Inliner::indices_at(TensorId id, IterationDomain domain) const {
  const Tensor& tensor = program_[id];
  const std::vector<Expr> sizes = tensor.domain();
  const LoopOrder& order = loop_orders_.at(id);
  std::vector<Expr> ordered;
  for (const std::size_t dim : order.dims) {
    ordered.push_back(sizes[dim]);
  }
  const std::vector<Index> parts =
      delinearize(simplified(position(domain), extents_), ordered, extents_);
  std::vector<Index> result(sizes.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    result[order.dims[i]] = parts[i];
  }
  return result;
}

std::uint32_t Inliner::operand(TensorId tensor) {
  for (std::size_t i = 0; i < kernel_.operands.size(); ++i) {
    if (kernel_.operands[i].tensor == tensor) {
      return static_cast<std::uint32_t>(i);
    }
  }
  kernel_.operands.push_back({tensor, false});
  return static_cast<std::uint32_t>(kernel_.operands.size() - 1);
}

ScalarId Inliner::load(TensorId tensor, const std::vector<Index>& indices) {
  return program_.pool.add({.op = ScalarOp::kLoad,
                            .dtype = compute_type(program_[tensor].dtype),
                            .integer = operand(tensor),
                            .indices = {address_of(program_[tensor], indices)}});
}

ScalarId Inliner::rewrite_read(TensorId id, std::vector<Index> indices, IterationDomain domain) {
  const Tensor& tensor = program_[id];
  // The read itself, with its indices in the kernel's variables, is the key.
  const ScalarId key = program_.pool.read(id, indices, tensor.dtype);
  auto& memory = reads_[static_cast<std::size_t>(domain)];
  if (const auto found = memory.find(key); found != memory.end()) {
    return found->second;
  }
  const bool member = members_.contains(id);
  ScalarId result;
  if (tensor.kind == Tensor::Kind::kMemory || (!member && materialized_.contains(id))) {
    result = load(id, indices);
  } else if (tensor.kind == Tensor::Kind::kReduction) {
    const auto found = reduce_of_.find(id);
    if (found == reduce_of_.end()) {
      throw Failure{};
    }
    const IterationDomain place = kernel_.reduces[static_cast<std::size_t>(found->second)].result;
    const bool in_loop = domain == IterationDomain::kFull || domain == IterationDomain::kRow;
    const bool visible =
        place == IterationDomain::kRow ? in_loop
        : place == IterationDomain::kColumn
            ? domain == IterationDomain::kColumn
            : domain == IterationDomain::kColumn || domain == IterationDomain::kSingle;
    const Index here = simplified(position(place), extents_);
    if (!visible || !(linearize(indices, tensor.sizes) == here)) {
      throw Failure{};
    }
    result = program_.pool.add(
        {.op = ScalarOp::kReduced, .dtype = compute_type(tensor.dtype), .integer = found->second});
  } else {
    if (member) {
      const std::optional<IterationDomain> own = domain_of(id);
      if (!own || !(indices == indices_at(id, *own))) {
        throw Failure{};
      }
    }
    std::unordered_map<ScalarId, ScalarId> done;
    result = rewrite(tensor.body, indices, domain, done);
  }
  memory.emplace(key, result);
  return result;
}

// Whether `scalar` is a rounding of a value that already has that precision.
bool Inliner::changes_nothing(const Scalar& scalar) const {
  const std::optional<ir::DType> type = rounded_type(scalar.op);
  if (!type) {
    return false;
  }
  const Scalar& operand = program_.pool[scalar.operands[0]];
  if (operand.op != ScalarOp::kLoad) {
    return operand.op == scalar.op;
  }
  return program_[kernel_.operands[static_cast<std::size_t>(operand.integer)].tensor].dtype == type;
}

// A product computed by another operator is rounded before it is added, as in eager mode, so that
// x * x - y * y is 0 for x == y. Within one lowering the compiler may contract to an FMA.
ScalarId Inliner::fenced(ScalarId original, ScalarId rewritten) {
  const Scalar& read = program_.pool[original];
  const bool is_result = read.op == ScalarOp::kRead && program_[read.tensor].value.valid();
  switch (program_.pool[rewritten].op) {
    case ScalarOp::kLoad:
    case ScalarOp::kConstant:
    case ScalarOp::kReduced:
    case ScalarOp::kAdd:
    case ScalarOp::kSubtract:
    case ScalarOp::kMaximum:
    case ScalarOp::kMinimum: return rewritten;
    default: return is_result ? program_.pool.unary(ScalarOp::kFence, rewritten) : rewritten;
  }
}

ScalarId Inliner::rewrite(ScalarId id,
                          const std::vector<Index>& variables,
                          IterationDomain domain,
                          std::unordered_map<ScalarId, ScalarId>& done) {
  if (const auto found = done.find(id); found != done.end()) {
    return found->second;
  }
  Scalar scalar = program_.pool[id];  // A copy: the pool grows.
  for (Index& index : scalar.indices) {
    index = substitute(index, variables, extents_, [&](ScalarId inner) {
      return rewrite(inner, variables, domain, done);
    });
  }
  ScalarId result;
  if (scalar.op == ScalarOp::kRead) {
    result = rewrite_read(scalar.tensor, std::move(scalar.indices), domain);
  } else if (scalar.op == ScalarOp::kIndex) {
    result = program_.pool.index(scalar.indices[0]);
  } else {
    const bool is_sum = ir::is_floating_point(scalar.dtype) &&
                        (scalar.op == ScalarOp::kAdd || scalar.op == ScalarOp::kSubtract);
    for (ScalarId& operand : scalar.operands) {
      const ScalarId original = operand;
      operand = rewrite(original, variables, domain, done);
      operand = is_sum ? fenced(original, operand) : operand;
    }
    result = changes_nothing(scalar) ? scalar.operands[0] : program_.pool.add(std::move(scalar));
  }
  done.emplace(id, result);
  return result;
}

std::optional<IterationDomain> Inliner::domain_of(TensorId id) const {
  const auto found = domains_.find(id);
  return found == domains_.end() ? std::nullopt : std::optional(found->second);
}

int Inliner::phase_of(ScalarId id) {
  if (const auto found = phases_.find(id); found != phases_.end()) {
    return found->second;
  }
  const Scalar& scalar = program_.pool[id];
  int phase = 0;
  if (scalar.op == ScalarOp::kReduced) {
    const LoopNest::Reduce& reduce = kernel_.reduces[static_cast<std::size_t>(scalar.integer)];
    phase = reduce.result == IterationDomain::kRow ? reduce.phase + 1 : 0;
  }
  const auto visit = [&](ScalarId operand) { phase = std::max(phase, phase_of(operand)); };
  std::ranges::for_each(scalar.operands, visit);
  for (const Index& index : scalar.indices) {
    for_each_computed(index, visit);
  }
  phases_.emplace(id, phase);
  return phase;
}

void Inliner::add_reduction(TensorId id) {
  const Tensor& tensor = program_[id];
  const LoopOrder& order = loop_orders_.at(id);
  const Expr kept = element_count(tensor.sizes);
  const Expr reduced = element_count(tensor.reduced);
  const bool row = order.result == IterationDomain::kRow;
  const bool matches =
      order.result == IterationDomain::kSingle
          ? reduced == group_.outer * group_.inner
          : group_.outer == (row ? kept : reduced) && group_.inner == (row ? reduced : kept);
  if (!matches) {
    throw Failure{};
  }
  std::unordered_map<ScalarId, ScalarId> done;
  const ScalarId body =
      rewrite(tensor.body, indices_at(id, IterationDomain::kFull), IterationDomain::kFull, done);
  const LoopNest::Reduce reduce{
      body, tensor.reduction, compute_type(tensor.dtype), order.result, phase_of(body)};
  domains_[id] = order.result;
  for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
    const LoopNest::Reduce& other = kernel_.reduces[i];
    if (other.body == body && other.reduction == reduce.reduction &&
        other.result == reduce.result && other.dtype == reduce.dtype) {
      reduce_of_[id] = static_cast<std::int64_t>(i);
      return;
    }
  }
  reduce_of_[id] = static_cast<std::int64_t>(kernel_.reduces.size());
  kernel_.reduces.push_back(reduce);
}

ScalarId Inliner::expand_pointwise(TensorId id) {
  const Tensor& tensor = program_[id];
  const Expr size = element_count(tensor.sizes);
  const std::pair<IterationDomain, Expr> choices[] = {
      {IterationDomain::kFull, group_.outer * group_.inner},
      {IterationDomain::kRow, group_.outer},
      {IterationDomain::kColumn, group_.inner},
      {IterationDomain::kSingle, 1}};
  for (const auto& [domain, extent] : choices) {
    if (!(size == extent)) {
      continue;
    }
    domains_[id] = domain;
    try {
      std::unordered_map<ScalarId, ScalarId> done;
      return rewrite(tensor.body, indices_at(id, domain), domain, done);
    } catch (const Failure&) {
      domains_.erase(id);
    }
  }
  throw Failure{};
}

// Updates have their own loop nest: reads cached for the outer extents do not apply.
void Inliner::add_updates(TensorId id) {
  const Updates& updates = *program_[id].updates;
  const std::span<const Expr> sizes = updates.sizes;
  std::vector<Expr> extents{
      element_count(sizes.first(updates.first)),
      element_count(sizes.subspan(updates.first, updates.last - updates.first)),
      element_count(sizes.subspan(updates.last))};
  std::swap(extents, extents_);
  for (auto& reads : reads_) {
    reads.clear();
  }
  const std::vector<Index> variables =
      delinearize(simplified(position(IterationDomain::kFull), extents_), sizes, extents_);
  std::unordered_map<ScalarId, ScalarId> done;
  const auto rewritten = [&](ScalarId scalar) {
    return rewrite(scalar, variables, IterationDomain::kFull, done);
  };
  std::vector<Index> place;
  for (const Index& index : updates.place) {
    place.push_back(substitute(index, variables, extents_, rewritten));
  }
  const ScalarId value = rewritten(updates.value);
  std::swap(extents, extents_);
  kernel_.update = LoopNest::Update{
      extents, value, operand(id), address_of(program_[id], place), updates.reduction};
}

void Inliner::add_member(TensorId id, const std::unordered_set<TensorId>& kept) {
  const Tensor& tensor = program_[id];
  ScalarId value;
  if (tensor.kind == Tensor::Kind::kReduction) {
    add_reduction(id);
    value = program_.pool.add({.op = ScalarOp::kReduced,
                               .dtype = compute_type(tensor.dtype),
                               .integer = reduce_of_.at(id)});
  } else {
    value = expand_pointwise(id);
  }
  if (kept.contains(id)) {
    // A store rounds by itself, but a scan accumulates the rounded value.
    const Scalar& rounding = program_.pool[value];
    const bool is_stored = tensor.kind != Tensor::Kind::kScan;
    if (is_stored && rounded_type(rounding.op) == tensor.dtype) {
      value = rounding.operands[0];
    }
    const IterationDomain domain = domains_.at(id);
    std::vector<Index> indices = indices_of_result(id, domain);
    const std::uint32_t destination = operand(id);
    kernel_.operands[destination].written = true;
    kernel_.stores.push_back(
        {value, destination, address_of(tensor, indices), domain, phase_of(value)});
  }
  if (program_[id].kind == Tensor::Kind::kScan) {
    kernel_.scan = LoopNest::Scan{value, program_[id].reduction};
  }
  if (program_[id].updates) {
    add_updates(id);
  }
}

std::vector<Index> Inliner::indices_of_result(TensorId id, IterationDomain domain) const {
  if (program_[id].kind == Tensor::Kind::kReduction) {
    return delinearize(simplified(position(domain), extents_), program_[id].sizes, extents_);
  }
  return indices_at(id, domain);
}

std::optional<LoopNest> Inliner::expand(const std::unordered_set<TensorId>& kept) {
  try {
    for (const TensorId member : group_.members) {
      add_member(member, kept);
    }
  } catch (const Failure&) {
    return std::nullopt;
  }
  // Per-column and scalar results are stored in the epilogue, if there is one.
  const bool columns = std::ranges::any_of(kernel_.reduces, [](const LoopNest::Reduce& reduce) {
    return reduce.result == IterationDomain::kColumn;
  });
  const bool has_unplaceable_store =
      std::ranges::any_of(kernel_.stores, [&](const LoopNest::Store& store) {
        return store.domain == IterationDomain::kColumn   ? !columns
               : store.domain == IterationDomain::kSingle ? !kernel_.has_epilogue()
                                                          : false;
      });
  return has_unplaceable_store ? std::nullopt : std::optional(kernel_);
}

}  // namespace kiln::codegen
