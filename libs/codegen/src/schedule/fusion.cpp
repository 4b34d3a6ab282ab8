#include "schedule/fusion.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "kiln/base/error.hpp"
#include "schedule/exact_quotient.hpp"
#include "schedule/inliner.hpp"
#include "schedule/step_dependences.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

class Fuser {
 public:
  Fuser(LoopProgram& program, const Requirements& requirements, const FusionLimits& limits)
      : program_(program),
        requirements_(requirements),
        limits_(limits),
        sources_(program, plan_.materialized) {
    plan_.materialized = find_materialized(program, requirements, limits);
    step_of_.resize(program.tensors.size(), -1);
  }

  FusionPlan run() {
    std::size_t next_extern = 0;
    std::vector<ir::NodeId> externs;
    for (std::size_t i = 0; i < program_.extern_at.size(); ++i) {
      if (program_.extern_at[i]) {
        externs.emplace_back(i);
      }
    }
    for (std::size_t i = 0; i <= program_.tensors.size(); ++i) {
      while (next_extern < externs.size() &&
             *program_.extern_at[externs[next_extern].index()] <= i) {
        add_extern(externs[next_extern++]);
      }
      if (i < program_.tensors.size() && plan_.materialized.contains(TensorId(i))) {
        plan_.loop_orders.emplace(TensorId(i), choose_loop_order(program_, TensorId(i)));
        add_materialized(TensorId(i));
      }
    }
    merge_groups();
    finish();
    return std::move(plan_);
  }

 private:
  void add_extern(ir::NodeId node) {
    const int step = new_step();
    plan_.steps[static_cast<std::size_t>(step)].node = node;
    for (const TensorId operand : requirements_.of_node[node.index()]) {
      need(step, operand);
    }
    // Draws of random numbers and side effects keep their order.
    if (requirements_.is_ordered(node)) {
      if (last_ordered_ >= 0) {
        dependences_.need(step, last_ordered_);
      }
      last_ordered_ = step;
    }
    for (std::size_t i = 0; i < program_.tensors.size(); ++i) {
      if (program_.tensors[i].kind == Tensor::Kind::kMemory && program_.tensors[i].node == node) {
        step_of_[i] = step;
      }
    }
  }

  int new_step() {
    plan_.steps.emplace_back();
    return dependences_.add();
  }

  void need(int step, TensorId tensor) {
    const int producer = step_of_[tensor.index()];
    if (producer >= 0 && producer != step) {
      dependences_.need(step, producer);
    }
  }

  std::int64_t elements(TensorId tensor) const {
    return program_.hint(element_count(program_[tensor].sizes));
  }

  void add_materialized(TensorId tensor) {
    const std::vector<TensorId>& sources = sources_.of(tensor);
    std::set<int> direct;
    for (const TensorId source : sources) {
      if (step_of_[source.index()] >= 0) {
        direct.insert(step_of_[source.index()]);
      }
    }
    // Candidates: kernels that compute an operand of it, or that read the same memory.
    std::map<int, std::int64_t> scores;
    for (const TensorId source : sources) {
      const int producer = step_of_[source.index()];
      if (producer >= 0 && !plan_.steps[static_cast<std::size_t>(producer)].node) {
        scores[producer] += 2 * elements(source);
      }
      for (const int reader : readers_[source]) {
        scores[reader] += elements(source);
      }
    }
    std::vector<std::pair<std::int64_t, int>> ranked;
    for (const auto& [step, score] : scores) {
      ranked.emplace_back(score, step);
    }
    std::ranges::sort(ranked, std::greater<>());
    for (const auto& [score, step] : ranked) {
      if (try_join(tensor, step, direct)) {
        return;
      }
    }
    const int step = new_step();
    FusionGroup& group = plan_.steps[static_cast<std::size_t>(step)].group;
    shape_for(group, tensor);
    group.members.push_back(tensor);
    own(tensor, step);
  }

  void own(TensorId tensor, int step) {
    step_of_[tensor.index()] = step;
    for (const TensorId source : sources_.of(tensor)) {
      need(step, source);
      readers_[source].insert(step);
    }
  }

  // Sets the group's loop extents from a reduction, unless already fixed.
  void shape_for(FusionGroup& group, TensorId id) const {
    const Tensor& tensor = program_[id];
    if (group.fixed) {
      return;
    }
    if (tensor.kind != Tensor::Kind::kReduction) {
      if (group.members.empty()) {
        group.outer = 1;
        group.inner = element_count(tensor.sizes);
      }
      return;
    }
    const Expr kept = element_count(tensor.sizes);
    const Expr reduced = element_count(tensor.reduced);
    group.fixed = true;
    switch (plan_.loop_orders.at(id).result) {
      case IterationDomain::kRow:
        group.outer = kept;
        group.inner = reduced;
        break;
      case IterationDomain::kColumn:
        group.outer = reduced;
        group.inner = kept;
        break;
      default: split_evenly(group, tensor); break;
    }
  }

  // Row length for a full reduction: the trailing static dims if sizes are symbolic, else a divisor
  // of the number of elements.
  static void split_evenly(FusionGroup& group, const Tensor& tensor) {
    constexpr std::int64_t kMaxRow = 4096;
    const Expr all = element_count(tensor.reduced);
    if (!all.is_constant()) {
      group.inner = trailing_dims(tensor.reduced);
      group.outer = *exact_quotient(all, group.inner);
      return;
    }
    const std::int64_t total = *all.constant();
    std::int64_t inner = total;
    if (total > kMaxRow) {
      for (std::int64_t candidate = kMaxRow; candidate >= 64; --candidate) {
        if (total % candidate == 0) {
          inner = candidate;
          break;
        }
      }
    }
    group.inner = inner;
    group.outer = total > 0 ? total / inner : 1;
  }

  // The product of the trailing static dims, if it is long enough for a row; else of all dims.
  static Expr trailing_dims(const std::vector<Expr>& sizes) {
    constexpr std::int64_t kMinRow = 64;
    std::int64_t row = 1;
    for (std::size_t i = sizes.size(); i-- > 0 && sizes[i].is_constant();) {
      row *= *sizes[i].constant();
    }
    return row >= kMinRow ? Expr(row) : element_count(sizes);
  }

  bool fits(const FusionGroup& group) {
    const std::unordered_set<TensorId> everything(group.members.begin(), group.members.end());
    const auto sequential = [&](TensorId member) { return program_[member].is_sequential(); };
    if (group.members.size() > 1 && std::ranges::any_of(group.members, sequential)) {
      return false;
    }
    const auto is_concatenation = [&](TensorId member) {
      return program_[member].is_concatenation;
    };
    if (group.fixed && std::ranges::any_of(group.members, is_concatenation)) {
      return false;
    }
    // With empty extents the loops would not run, but other members must still be computed.
    if (group.members.size() > 1 && group.outer * group.inner == Expr(0)) {
      return false;
    }
    if (group.fixed && group.members.size() > 1 &&
        program_.hint.always_at_least(group.inner, limits_.max_row_elements + 1)) {
      return false;
    }
    Inliner inliner(
        program_, plan_.loop_orders, group, {group.outer, 1, group.inner}, plan_.materialized);
    const std::optional<LoopNest> kernel = inliner.expand(everything);
    return kernel && kernel->operands.size() <= limits_.max_operands;
  }

  bool try_join(TensorId tensor, int step, const std::set<int>& direct) {
    for (const int other : direct) {
      if (other != step && dependences_.depends(other, step)) {
        return false;
      }
    }
    FusionGroup group = plan_.steps[static_cast<std::size_t>(step)].group;
    shape_for(group, tensor);
    group.members.push_back(tensor);
    if (!fits(group) && !fits_reordered(group, tensor)) {
      return false;
    }
    plan_.steps[static_cast<std::size_t>(step)].group = std::move(group);
    own(tensor, step);
    return true;
  }

  // A permuting copy can be visited in its source's order, row by row.
  bool fits_reordered(const FusionGroup& group, TensorId tensor) {
    std::vector<std::size_t>& order = plan_.loop_orders.at(tensor).dims;
    const auto& members = group.members;
    const bool reads_member = std::ranges::any_of(sources_.of(tensor), [&](TensorId source) {
      return std::ranges::find(members, source) != members.end();
    });
    if (!group.fixed || !reads_member || program_[tensor].kind != Tensor::Kind::kPointwise ||
        order.size() < 3 || order.size() > 5 ||
        !(element_count(program_[tensor].sizes) == group.outer * group.inner)) {
      return false;
    }
    const std::vector<std::size_t> usual = order;
    std::vector<std::size_t> candidate = usual;
    std::ranges::sort(candidate.begin(), candidate.end() - 1);
    do {
      order = candidate;
      if (order != usual && fits(group)) {
        return true;
      }
    } while (std::next_permutation(candidate.begin(), candidate.end() - 1));
    order = usual;
    return false;
  }

  // Merges kernels that became fusable only after a later tensor connected them.
  void merge_groups() {
    for (int later = static_cast<int>(plan_.steps.size()) - 1; later >= 0; --later) {
      const PlannedStep& step = plan_.steps[static_cast<std::size_t>(later)];
      if (step.node || step.group.members.empty()) {
        continue;
      }
      std::set<int> candidates = dependences_.needs(later);
      for (const TensorId member : step.group.members) {
        for (const TensorId source : sources_.of(member)) {
          candidates.insert(readers_[source].begin(), readers_[source].end());
        }
      }
      for (const int earlier : candidates) {
        if (earlier < later && try_merge(earlier, later)) {
          break;
        }
      }
    }
  }

  bool try_merge(int earlier, int later) {
    PlannedStep& first = plan_.steps[static_cast<std::size_t>(earlier)];
    PlannedStep& second = plan_.steps[static_cast<std::size_t>(later)];
    if (first.node || first.group.members.empty()) {
      return false;
    }
    if (dependences_.depends_indirectly(later, earlier) ||
        dependences_.depends_indirectly(earlier, later)) {
      return false;
    }
    FusionGroup group = second.group.fixed ? second.group : first.group;
    group.members = first.group.members;
    group.members.insert(
        group.members.end(), second.group.members.begin(), second.group.members.end());
    std::ranges::sort(group.members);
    if ((first.group.fixed && second.group.fixed &&
         !(first.group.outer == second.group.outer && first.group.inner == second.group.inner)) ||
        !fits(group)) {
      return false;
    }
    second.group.members.clear();
    first.group = std::move(group);
    for (const TensorId member : first.group.members) {
      step_of_[member.index()] = earlier;
    }
    dependences_.merge(earlier, later);
    for (auto& [source, readers] : readers_) {
      if (readers.erase(later) > 0) {
        readers.insert(earlier);
      }
    }
    return true;
  }

  // Orders the steps and finds what must be written to memory.
  void finish() {
    for (const TensorId tensor : plan_.materialized) {
      if (requirements_.tensors.contains(tensor)) {
        plan_.kept.insert(tensor);
      }
      for (const TensorId source : sources_.of(tensor)) {
        if (plan_.materialized.contains(source) &&
            step_of_[source.index()] != step_of_[tensor.index()]) {
          plan_.kept.insert(source);
        }
      }
    }
    std::vector<PlannedStep> ordered;
    for (const int step : dependences_.order()) {
      PlannedStep& planned = plan_.steps[static_cast<std::size_t>(step)];
      if (planned.node || !planned.group.members.empty()) {
        ordered.push_back(std::move(planned));
      }
    }
    plan_.steps = std::move(ordered);
  }

  LoopProgram& program_;
  const Requirements& requirements_;
  const FusionLimits& limits_;
  FusionPlan plan_;
  Sources sources_;
  std::vector<int> step_of_;  // By tensor.
  StepDependences dependences_;
  std::unordered_map<TensorId, std::set<int>> readers_;
  int last_ordered_ = -1;
};

}  // namespace

FusionPlan fuse(LoopProgram& program,
                const Requirements& requirements,
                const FusionLimits& limits) {
  return Fuser(program, requirements, limits).run();
}

}  // namespace kiln::codegen
