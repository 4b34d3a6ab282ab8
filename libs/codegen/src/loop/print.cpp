#include "loop/print.hpp"

#include <array>
#include <cstdio>

#include "kiln/ir/types.hpp"

namespace kiln::codegen {
namespace {

std::string name_of_variable(int variable) {
  constexpr std::array<const char*, 3> kNames = {"o", "m", "j"};
  return variable >= 0 && variable < 3 ? kNames[static_cast<std::size_t>(variable)]
                                       : "i" + std::to_string(variable);
}

const char* name_of_domain(IterationDomain domain) {
  switch (domain) {
    case IterationDomain::kFull: return "full";
    case IterationDomain::kRow: return "row";
    case IterationDomain::kColumn: return "column";
    case IterationDomain::kSingle: return "single";
  }
  return "";
}

std::string print_atom(const ScalarPool& pool, const Atom& atom) {
  switch (atom.kind) {
    case Atom::Kind::kVariable: return name_of_variable(atom.variable);
    case Atom::Kind::kComputed: return print(pool, atom.scalar);
    case Atom::Kind::kQuotient:
      return "(" + print(pool, atom.operand) + ") / " + atom.divisor.to_string();
    case Atom::Kind::kRemainder:
      return "(" + print(pool, atom.operand) + ") % " + atom.divisor.to_string();
  }
  return "";
}

std::string print_extents(const std::vector<ir::Expr>& extents) {
  std::string text;
  for (const ir::Expr& extent : extents) {
    text += (text.empty() ? "" : " x ") + extent.to_string();
  }
  return text;
}

std::string place(const ScalarPool& pool, std::uint32_t operand, const Index& address) {
  return "b" + std::to_string(operand) + "[" + print(pool, address) + "]";
}

}  // namespace

std::string print_constant(const Scalar& constant, int digits) {
  if (!ir::is_floating_point(constant.dtype)) {
    return std::to_string(constant.integer);
  }
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, constant.real);
  return text.data();
}

std::string print(const ScalarPool& pool, const Index& index) {
  std::string text;
  for (const Index::Term& term : index.terms()) {
    const std::string factor = term.factor == ir::Expr(1) ? "" : term.factor.to_string() + "*";
    text += (text.empty() ? "" : " + ") + factor + print_atom(pool, *term.atom);
  }
  if (text.empty() || !(index.constant() == ir::Expr(0))) {
    text += (text.empty() ? "" : " + ") + index.constant().to_string();
  }
  return text;
}

std::string print(const ScalarPool& pool, ScalarId id) {
  const Scalar& scalar = pool[id];
  switch (scalar.op) {
    case ScalarOp::kConstant: return print_constant(scalar, 9);
    case ScalarOp::kIndex: return "index(" + print(pool, scalar.indices[0]) + ")";
    case ScalarOp::kLoad:
      return place(pool, static_cast<std::uint32_t>(scalar.integer), scalar.indices[0]);
    case ScalarOp::kReduced: return "r" + std::to_string(scalar.integer);
    default: break;
  }
  std::string arguments =
      scalar.op == ScalarOp::kRead ? "t" + std::to_string(scalar.tensor.index()) : "";
  for (const Index& index : scalar.indices) {
    arguments += (arguments.empty() ? "" : ", ") + print(pool, index);
  }
  for (const ScalarId operand : scalar.operands) {
    arguments += (arguments.empty() ? "" : ", ") + print(pool, operand);
  }
  const std::string type =
      scalar.op == ScalarOp::kCast ? "." + std::string(ir::to_string(scalar.dtype)) : "";
  return std::string(to_string(scalar.op)) + type + "(" + arguments + ")";
}

std::string print(const LoopProgram& program, const LoopNest& nest) {
  const ScalarPool& pool = program.pool;
  std::string text = "nest " + print_extents(nest.extents) + " {\n";
  const auto line = [&](const std::string& words) { text += "  " + words + "\n"; };
  for (std::size_t i = 0; i < nest.operands.size(); ++i) {
    line(std::string(nest.operands[i].written ? "write" : "read") + " b" + std::to_string(i) +
         ": " + std::string(ir::to_string(program[nest.operands[i].tensor].dtype)));
  }
  for (std::size_t i = 0; i < nest.reduces.size(); ++i) {
    const LoopNest::Reduce& reduce = nest.reduces[i];
    line("r" + std::to_string(i) + " = " + std::string(to_string(reduce.reduction)) + " " +
         name_of_domain(reduce.result) + " phase " + std::to_string(reduce.phase) + " " +
         print(pool, reduce.body));
  }
  if (nest.scan) {
    line("scan " + std::string(to_string(nest.scan->reduction)) + " " +
         print(pool, nest.scan->body));
  }
  for (const LoopNest::Store& store : nest.stores) {
    line(place(pool, store.operand, store.address) + " = " + name_of_domain(store.domain) +
         " phase " + std::to_string(store.phase) + " " + print(pool, store.value));
  }
  for (const Segment& segment : nest.segments) {
    line("segment " + std::to_string(segment.begin) + " to " + std::to_string(segment.end));
    for (const ScalarId value : segment.values) {
      line("  " + print(pool, value));
    }
  }
  for (const ScalarId load : nest.transposed_loads) {
    line("transposed " + print(pool, load));
  }
  if (nest.update) {
    line("update " + print_extents(nest.update->extents) + " " +
         std::string(nest.update->reduction ? to_string(*nest.update->reduction) : "set") + " " +
         place(pool, nest.update->operand, nest.update->address) + " = " +
         print(pool, nest.update->value));
  }
  return text + "}\n";
}

}  // namespace kiln::codegen
