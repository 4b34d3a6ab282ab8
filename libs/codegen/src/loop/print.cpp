#include "loop/print.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>

#include "kiln/ir/types.hpp"
#include "loop/scalar_printer.hpp"

namespace kiln::codegen {
namespace {

using ir::Expr;

constexpr std::array<const char*, 3> kVariables = {"o", "m", "j"};

const char* word_for(IterationDomain domain) {
  switch (domain) {
    case IterationDomain::kRow: return "row";
    case IterationDomain::kColumn: return "column";
    case IterationDomain::kFull:
    case IterationDomain::kSingle: return "all";
  }
  return "";
}

class NestPrinter final : public ScalarPrinter {
 public:
  NestPrinter(const LoopProgram& program,
              const LoopNest& nest,
              const std::vector<std::string>& operands)
      : ScalarPrinter(program.pool), program_(program), nest_(nest), operands_(operands) {}

  std::string run() {
    std::string header = "nest";
    for (const std::string& op : nest_.ops) {
      header += (header == "nest" ? " " : ", ") + op;
    }
    open(header);
    if (operands_.empty()) {
      print_operands();
    }
    if (nest_.scan) {
      print_scan();
    } else if (!nest_.stores.empty() || !nest_.reduces.empty()) {
      print_rows();
      print_epilogue();
    }
    if (nest_.update) {
      print_update();
    }
    close();
    return std::move(text_);
  }

  [[nodiscard]] std::string scalar(ScalarId id) const override {
    const auto found = names_.find(id);
    return found == names_.end() ? ScalarPrinter::scalar(id) : found->second;
  }

 private:
  void line(const std::string& words) { text_ += std::string(2 * depth_, ' ') + words + "\n"; }

  void open(const std::string& header) {
    line(header + " {");
    ++depth_;
  }

  void close() {
    --depth_;
    line("}");
  }

  // The header of a loop over `ranges`; empty if it has a single iteration.
  static std::string loop(std::span<const std::string> ranges) {
    std::string text;
    for (const std::string& range : ranges) {
      text += range.empty() ? "" : (text.empty() ? "for " : ", ") + range;
    }
    return text;
  }

  static std::string range(const std::vector<Expr>& extents, LoopVariable variable) {
    return extents[variable] == Expr(1)
               ? ""
               : std::string(kVariables[variable]) + " < " + extents[variable].to_string();
  }

  // Calls `body` in a loop over `ranges`.
  template <class Body>
  void print_loop(std::initializer_list<std::string> ranges, const Body& body) {
    const std::string header = loop(std::span(ranges.begin(), ranges.size()));
    if (!header.empty()) {
      open(header);
    }
    body();
    if (!header.empty()) {
      close();
    }
  }

  void print_operands() {
    for (std::size_t i = 0; i < nest_.operands.size(); ++i) {
      const LoopNest::Operand& operand = nest_.operands[i];
      line(std::string(operand.written ? "write " : "read ") + name_of(i) + ": " +
           std::string(ir::to_string(program_[operand.tensor].dtype)));
    }
  }

  void print_scan() {
    const LoopNest::Store& to = nest_.stores[0];
    const std::string in_order = range(nest_.extents, kMiddle);
    print_loop({range(nest_.extents, kOuter),
                in_order.empty() ? "" : in_order + " in order",
                range(nest_.extents, kInner)},
               [&] {
                 define_shared({nest_.scan->body});
                 line(place(to.operand, to.address) + " = scan " +
                      std::string(to_string(nest_.scan->reduction)) + "(" +
                      scalar(nest_.scan->body) + ")");
                 forget();
               });
  }

  void print_rows() {
    std::string rows = range(nest_.extents, kOuter);
    if (nest_.reduction_splits > 1 && nest_.has_epilogue()) {
      rows += rows.empty() ? "o < 1 in " : " in ";
      rows += std::to_string(nest_.reduction_splits) + " parts";
    }
    print_loop({rows}, [&] {
      int phases = 1;
      for (const LoopNest::Reduce& reduce : nest_.reduces) {
        phases = std::max(phases, reduce.phase + 1);
      }
      for (const LoopNest::Store& store : nest_.stores) {
        phases = std::max(phases, store.domain == IterationDomain::kFull ? store.phase + 1 : 1);
      }
      for (int phase = 0; phase < phases; ++phase) {
        print_phase(phase);
        print_stores(IterationDomain::kRow, [&](const LoopNest::Store& store) {
          return std::max(store.phase, 1) == phase + 1;
        });
      }
    });
    names_.clear();
  }

  void print_phase(int phase) {
    const std::string middle = range(nest_.extents, kMiddle);
    if (nest_.segments.empty()) {
      std::string inner = range(nest_.extents, kInner);
      inner += nest_.transposed_loads.empty() ? "" : " in tiles";
      print_body(phase, {middle, inner}, nullptr);
      return;
    }
    for (const Segment& segment : nest_.segments) {
      const std::string inner =
          "j in [" + std::to_string(segment.begin) + ", " + std::to_string(segment.end) + ")";
      print_body(phase, {middle, inner}, &segment);
    }
  }

  void print_body(int phase, std::initializer_list<std::string> ranges, const Segment* segment) {
    std::vector<std::pair<std::string, ScalarId>> lines;
    for (std::size_t i = 0; i < nest_.reduces.size(); ++i) {
      const LoopNest::Reduce& reduce = nest_.reduces[i];
      if (reduce.phase == phase) {
        lines.emplace_back(std::string(word_for(reduce.result)) + " r" + std::to_string(i) + " = " +
                               std::string(to_string(reduce.reduction)),
                           reduce.body);
      }
    }
    const std::size_t reduces = lines.size();
    for (std::size_t i = 0; i < nest_.stores.size(); ++i) {
      const LoopNest::Store& store = nest_.stores[i];
      if (store.domain == IterationDomain::kFull && store.phase == phase) {
        lines.emplace_back(place(store.operand, store.address) + " = ",
                           segment == nullptr ? store.value : segment->values[i]);
      }
    }
    if (lines.empty()) {
      return;
    }
    print_loop(ranges, [&] {
      for (const ScalarId load : nest_.transposed_loads) {
        line("transpose " + ScalarPrinter::scalar(load));
      }
      std::vector<ScalarId> roots;
      for (const auto& [start, value] : lines) {
        roots.push_back(value);
      }
      define_shared(roots);
      for (std::size_t i = 0; i < lines.size(); ++i) {
        const std::string value = scalar(lines[i].second);
        line(lines[i].first + (i < reduces ? "(" + value + ")" : value));
      }
      forget();
    });
  }

  template <class Wanted>
  void print_stores(IterationDomain domain, const Wanted& is_wanted) {
    for (const LoopNest::Store& store : nest_.stores) {
      if (store.domain == domain && is_wanted(store)) {
        line(place(store.operand, store.address) + " = " + scalar(store.value));
      }
    }
  }

  void print_epilogue() {
    const auto all = [](const LoopNest::Store&) { return true; };
    print_stores(IterationDomain::kSingle, all);
    if (std::ranges::find(nest_.stores, IterationDomain::kColumn, &LoopNest::Store::domain) !=
        nest_.stores.end()) {
      print_loop({range(nest_.extents, kMiddle), range(nest_.extents, kInner)},
                 [&] { print_stores(IterationDomain::kColumn, all); });
    }
  }

  void print_update() {
    const LoopNest::Update& update = *nest_.update;
    const std::string in_order = range(update.extents, kMiddle);
    print_loop({range(update.extents, kOuter),
                in_order.empty() ? "" : in_order + " in order",
                range(update.extents, kInner)},
               [&] {
                 define_shared({update.value});
                 const std::string value = scalar(update.value);
                 line("update " + place(update.operand, update.address) + " = " +
                      (update.reduction
                           ? std::string(to_string(*update.reduction)) + "(old, " + value + ")"
                           : value));
                 forget();
               });
  }

  // Names the values that `roots` use more than once, and those that are kept for later phases.
  void define_shared(const std::vector<ScalarId>& roots) {
    std::unordered_map<ScalarId, int> uses;
    std::vector<ScalarId> in_order;  // Operands before their users.
    const std::function<void(ScalarId)> visit = [&](ScalarId id) {
      if (names_.contains(id) || ++uses[id] > 1) {
        return;
      }
      for (const ScalarId operand : pool_[id].operands) {
        visit(operand);
      }
      for (const Index& index : pool_[id].indices) {
        for_each_computed(index, visit);
      }
      in_order.push_back(id);
    };
    std::ranges::for_each(roots, visit);
    for (const ScalarId id : in_order) {
      const bool kept = is_kept(id);
      const ScalarOp op = pool_[id].op;
      const bool is_short = op == ScalarOp::kConstant || op == ScalarOp::kIndex ||
                            op == ScalarOp::kLoad || op == ScalarOp::kReduced;
      if (kept || (uses[id] > 1 && !is_short)) {
        const std::string name = "v" + std::to_string(next_name_++);
        line((kept ? "keep " : "") + name + " = " + scalar(id));
        names_.emplace(id, name);
      }
    }
  }

  // At the end of a loop: forgets the names of values that are not kept.
  void forget() {
    std::erase_if(names_, [&](const auto& named) { return !is_kept(named.first); });
  }

  [[nodiscard]] bool is_kept(ScalarId id) const {
    const auto& kept = nest_.row_buffers;
    return std::ranges::find(kept, id, &LoopNest::RowBuffer::value) != kept.end();
  }

  [[nodiscard]] std::string name_of(std::size_t operand) const {
    return operands_.empty() ? "b" + std::to_string(operand) : operands_[operand];
  }

  [[nodiscard]] std::string place(std::size_t operand, const Index& address) const {
    return name_of(operand) + "[" + index(address) + "]";
  }

  [[nodiscard]] std::string number(const Expr& number) const override {
    return print_number(number);
  }

  [[nodiscard]] std::string variable(int variable) const override {
    return kVariables[static_cast<std::size_t>(variable)];
  }

  [[nodiscard]] std::string constant(const Scalar& scalar) const override {
    return digits_of(scalar);
  }

  [[nodiscard]] std::string memory(const Scalar& scalar) const override {
    if (scalar.op == ScalarOp::kReduced) {
      return "r" + std::to_string(scalar.integer);
    }
    return place(static_cast<std::size_t>(scalar.integer), scalar.indices[0]);
  }

  const LoopProgram& program_;
  const LoopNest& nest_;
  const std::vector<std::string>& operands_;
  std::string text_;
  std::size_t depth_ = 0;
  std::unordered_map<ScalarId, std::string> names_;
  int next_name_ = 0;
};

}  // namespace

std::string print(const LoopProgram& program,
                  const LoopNest& nest,
                  const std::vector<std::string>& operands) {
  return NestPrinter(program, nest, operands).run();
}

std::string print_number(const Expr& number) {
  const std::string text = number.to_string();
  return text.find_first_of(" *") == std::string::npos ? text : "{" + text + "}";
}

}  // namespace kiln::codegen
