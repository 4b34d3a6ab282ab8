#include "schedule/loop_cost.hpp"

#include <span>
#include <unordered_map>
#include <vector>

namespace kiln::codegen {

using ir::Expr;

namespace {

// Loop variables as bits.
using Variables = unsigned;
constexpr Variables kRows = 1u << kOuter, kColumns = 1u << kMiddle | 1u << kInner;

Variables variables_of(IterationDomain domain) {
  switch (domain) {
    case IterationDomain::kFull: return kRows | kColumns;
    case IterationDomain::kRow: return kRows;
    case IterationDomain::kColumn: return kColumns;
    case IterationDomain::kSingle: return 0;
  }
  return 0;
}

// Comparisons are bools and indices integers, so only copies and selections need to be excluded.
bool is_arithmetic(const Scalar& scalar) {
  switch (scalar.op) {
    case ScalarOp::kRead:
    case ScalarOp::kLoad:
    case ScalarOp::kCast:
    case ScalarOp::kWhere:
    case ScalarOp::kRoundToHalf:
    case ScalarOp::kRoundToBFloat16: return false;
    default: return ir::is_floating_point(scalar.dtype);
  }
}

class Counter {
 public:
  Counter(const LoopProgram& program, const LoopNest& kernel)
      : program_(program),
        kernel_(kernel),
        extents_(kernel.extents),
        read_(kernel.operands.size()),
        written_(kernel.operands.size()) {}

  Cost run() {
    for (const LoopNest::Reduce& reduce : kernel_.reduces) {
      visit(reduce.body);
      if (ir::is_floating_point(reduce.dtype)) {
        cost_.operations = cost_.operations + points(kRows | kColumns);
      }
    }
    for (const LoopNest::Store& store : kernel_.stores) {
      visit(store.value);
      written_[store.operand] = written_[store.operand] + points(variables_of(store.domain));
    }
    if (kernel_.update) {
      count_updates(*kernel_.update);
    }
    for (std::size_t i = 0; i < kernel_.operands.size(); ++i) {
      cost_.bytes_read = cost_.bytes_read + bytes(i, read_[i]);
      cost_.bytes_written = cost_.bytes_written + bytes(i, written_[i]);
    }
    return std::move(cost_);
  }

 private:
  // In loops of their own.
  void count_updates(const LoopNest::Update& update) {
    extents_ = update.extents;
    known_.clear();
    visit(update.address);
    visit(update.value);
    const Expr updates = points(kRows | kColumns);
    written_[update.operand] = written_[update.operand] + updates;
    if (update.reduction) {
      read_[update.operand] = read_[update.operand] + updates;
    }
    if (update.reduction && ir::is_floating_point(program_.pool[update.value].dtype)) {
      cost_.operations = cost_.operations + updates;
    }
  }

  [[nodiscard]] Expr points(Variables variables) const {
    Expr count = 1;
    for (std::size_t i = 0; i < extents_.size(); ++i) {
      if ((variables >> i & 1u) != 0) {
        count = count * extents_[i];
      }
    }
    return count;
  }

  // A gather may access few of its operand's elements, and a window the same ones repeatedly.
  [[nodiscard]] Expr bytes(std::size_t operand, const Expr& accesses) const {
    const Tensor& tensor = program_[kernel_.operands[operand].tensor];
    return min(accesses, ir::element_count(tensor.sizes)) * Expr(ir::size_of(tensor.dtype));
  }

  Variables visit(const Index& index) {
    Variables variables = 0;
    for (const int variable : {kOuter, kMiddle, kInner}) {
      variables |= index.mentions(variable) ? 1u << variable : 0u;
    }
    for_each_computed(index, [&](ScalarId scalar) { variables |= visit(scalar); });
    return variables;
  }

  // Counts `id` and its operands; returns the variables that it depends on.
  Variables visit(ScalarId id) {
    if (const auto found = known_.find(id); found != known_.end()) {
      return found->second;
    }
    const Scalar& scalar = program_.pool[id];
    Variables variables = 0;
    if (scalar.op == ScalarOp::kReduced) {
      variables = variables_of(kernel_.reduces[static_cast<std::size_t>(scalar.integer)].result);
    }
    for (const ScalarId operand : scalar.operands) {
      variables |= visit(operand);
    }
    for (const Index& index : scalar.indices) {
      variables |= visit(index);
    }
    if (scalar.op == ScalarOp::kLoad) {
      Expr& accesses = read_[static_cast<std::size_t>(scalar.integer)];
      accesses = accesses + points(variables);
    }
    if (is_arithmetic(scalar)) {
      cost_.operations = cost_.operations + points(variables) * Expr(operation_cost(scalar.op));
    }
    known_.emplace(id, variables);
    return variables;
  }

  const LoopProgram& program_;
  const LoopNest& kernel_;
  std::span<const Expr> extents_;
  std::vector<Expr> read_, written_;  // Accesses, by operand.
  std::unordered_map<ScalarId, Variables> known_;
  Cost cost_;
};

}  // namespace

Cost cost_of(const LoopProgram& program, const LoopNest& kernel) {
  return Counter(program, kernel).run();
}

}  // namespace kiln::codegen
