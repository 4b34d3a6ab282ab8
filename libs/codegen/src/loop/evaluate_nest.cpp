#include "loop/evaluate_nest.hpp"

#include <algorithm>
#include <utility>

namespace kiln::codegen {
namespace {

// Calls `visit` for each point of three loops.
template <class Visit>
void for_each_iteration(const std::vector<std::int64_t>& extents, const Visit& visit) {
  for (std::int64_t outer = 0; outer < extents[kOuter]; ++outer) {
    for (std::int64_t middle = 0; middle < extents[kMiddle]; ++middle) {
      for (std::int64_t inner = 0; inner < extents[kInner]; ++inner) {
        visit(Point{outer, middle, inner});
      }
    }
  }
}

}  // namespace

NestEvaluator::NestEvaluator(const LoopProgram& program,
                             const LoopNest& nest,
                             std::vector<std::span<Element>> memory)
    : ScalarEvaluator(program.pool),
      program_(program),
      nest_(nest),
      memory_(std::move(memory)),
      extents_(constant_sizes(nest.extents)),
      totals_(nest.reduces.size()) {}

void NestEvaluator::run() {
  if (nest_.scan) {
    run_scan();
  } else if (!nest_.stores.empty() || !nest_.reduces.empty()) {
    run_rows();
  }
  if (nest_.update) {
    run_updates();
  }
}

Element& NestEvaluator::total(std::size_t reduce, const Point& point) {
  const bool is_column = nest_.reduces[reduce].result == IterationDomain::kColumn;
  const std::int64_t place = point[kMiddle] * extents_[kInner] + point[kInner];
  return totals_[reduce][is_column ? static_cast<std::size_t>(place) : 0];
}

Element NestEvaluator::leaf(const Scalar& scalar, const Point& point) {
  const auto number = static_cast<std::size_t>(scalar.integer);
  if (scalar.op == ScalarOp::kReduced) {
    return fit(scalar.dtype, total(number, point));
  }
  return memory_[number][static_cast<std::size_t>(index(scalar.indices[0], point))];
}

void NestEvaluator::write(std::uint32_t operand,
                          const Index& address,
                          Element value,
                          const Point& point) {
  const ir::DType dtype = program_[nest_.operands[operand].tensor].dtype;
  memory_[operand][static_cast<std::size_t>(index(address, point))] =
      fit(compute_type(dtype), value);
}

void NestEvaluator::store(const LoopNest::Store& store, ScalarId value, const Point& point) {
  write(store.operand, store.address, scalar(value, point), point);
}

void NestEvaluator::run_scan() {
  const LoopNest::Store& to = nest_.stores[0];
  std::vector<Element> running;
  for_each_iteration(extents_, [&](const Point& point) {
    const auto inner = static_cast<std::size_t>(point[kInner]);
    if (point[kMiddle] == 0 && point[kInner] == 0) {
      running.assign(static_cast<std::size_t>(extents_[kInner]), neutral(nest_.scan->reduction));
    }
    running[inner] =
        combine(nest_.scan->reduction, running[inner], scalar(nest_.scan->body, point));
    write(to.operand, to.address, running[inner], point);
  });
}

void NestEvaluator::run_rows() {
  for (std::size_t i = 0; i < nest_.reduces.size(); ++i) {
    const bool is_column = nest_.reduces[i].result == IterationDomain::kColumn;
    const std::int64_t count = is_column ? extents_[kMiddle] * extents_[kInner] : 1;
    totals_[i].assign(static_cast<std::size_t>(count), neutral(nest_.reduces[i].reduction));
  }
  for (std::int64_t row = 0; row < extents_[kOuter]; ++row) {
    run_row(row);
  }
  run_epilogue();
}

void NestEvaluator::run_row(std::int64_t row) {
  int phases = 1;
  for (std::size_t i = 0; i < nest_.reduces.size(); ++i) {
    phases = std::max(phases, nest_.reduces[i].phase + 1);
    if (nest_.reduces[i].result == IterationDomain::kRow) {
      totals_[i][0] = neutral(nest_.reduces[i].reduction);
    }
  }
  for (const LoopNest::Store& store : nest_.stores) {
    phases = std::max(phases, store.domain == IterationDomain::kFull ? store.phase + 1 : 1);
  }
  for (int phase = 0; phase < phases; ++phase) {
    run_phase(row, phase);
  }
}

void NestEvaluator::run_phase(std::int64_t row, int phase) {
  for_each_iteration({1, extents_[kMiddle], extents_[kInner]}, [&](Point point) {
    point[kOuter] = row;
    for (std::size_t i = 0; i < nest_.reduces.size(); ++i) {
      const LoopNest::Reduce& reduce = nest_.reduces[i];
      if (reduce.phase == phase) {
        Element& sum = total(i, point);
        sum = combine(reduce.reduction, sum, scalar(reduce.body, point));
      }
    }
    for (std::size_t i = 0; i < nest_.stores.size(); ++i) {
      const LoopNest::Store& to = nest_.stores[i];
      if (to.domain == IterationDomain::kFull && to.phase == phase) {
        store(to, value_at(i, point[kInner]), point);
      }
    }
  });
  for (const LoopNest::Store& to : nest_.stores) {
    if (to.domain == IterationDomain::kRow && std::max(to.phase, 1) == phase + 1) {
      store(to, to.value, {row, 0, 0});
    }
  }
}

ScalarId NestEvaluator::value_at(std::size_t store, std::int64_t inner) const {
  for (const Segment& segment : nest_.segments) {
    if (inner >= segment.begin && inner < segment.end) {
      return segment.values[store];
    }
  }
  return nest_.stores[store].value;
}

void NestEvaluator::run_epilogue() {
  for (const LoopNest::Store& to : nest_.stores) {
    if (to.domain == IterationDomain::kSingle) {
      store(to, to.value, {0, 0, 0});
    } else if (to.domain == IterationDomain::kColumn) {
      for_each_iteration({1, extents_[kMiddle], extents_[kInner]},
                         [&](const Point& point) { store(to, to.value, point); });
    }
  }
}

void NestEvaluator::run_updates() {
  const LoopNest::Update& update = *nest_.update;
  for_each_iteration(constant_sizes(update.extents), [&](const Point& point) {
    Element value = scalar(update.value, point);
    if (update.reduction) {
      const auto place = static_cast<std::size_t>(index(update.address, point));
      value = combine(*update.reduction, memory_[update.operand][place], value);
    }
    write(update.operand, update.address, value, point);
  });
}

}  // namespace kiln::codegen
