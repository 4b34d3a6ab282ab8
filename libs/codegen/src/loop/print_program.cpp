#include <string>
#include <vector>

#include "kiln/base/error.hpp"
#include "loop/print.hpp"
#include "loop/program_text.hpp"

namespace kiln::codegen {
namespace {

using ir::Expr;

const char* word_for(Tensor::Kind kind) {
  switch (kind) {
    case Tensor::Kind::kMemory: return "memory";
    case Tensor::Kind::kPointwise: return "pointwise";
    case Tensor::Kind::kReduction: return "reduction";
    case Tensor::Kind::kScan: return "scan";
    case Tensor::Kind::kScatter: return "scatter";
  }
  return "";
}

// "16" or "{2*s0 + 1}".
std::string number_text(const Expr& expr) {
  return expr.is_constant() ? expr.to_string() : "{" + expr.to_string() + "}";
}

std::string numbers_text(const std::vector<Expr>& values) {
  std::string text;
  for (const Expr& value : values) {
    text += (text.empty() ? "" : ", ") + number_text(value);
  }
  return text;
}

class ProgramPrinter {
 public:
  explicit ProgramPrinter(const LoopProgram& program) : program_(program) {}

  std::string run() {
    std::string text;
    for (std::size_t i = 0; i < program_.tensors.size(); ++i) {
      text += "t" + std::to_string(i) + " = " + tensor(program_.tensors[i]) + "\n";
    }
    return text;
  }

 private:
  [[nodiscard]] std::string tensor(const Tensor& tensor) const {
    std::string text = std::string(word_for(tensor.kind)) + " " +
                       std::string(ir::to_string(tensor.dtype)) + "[" + numbers_text(tensor.sizes) +
                       "]{" + numbers_text(tensor.strides) + "}";
    text += tensor.is_view ? " view" : "";
    text += tensor.is_concatenation ? " concatenation" : "";
    text += tensor.reread.valid() ? " rereads t" + std::to_string(tensor.reread.index()) : "";
    if (tensor.kind == Tensor::Kind::kMemory) {
      return text;
    }
    if (tensor.kind == Tensor::Kind::kReduction) {
      text += " " + std::string(to_string(tensor.reduction)) + " over [" +
              numbers_text(tensor.reduced) + "]";
    } else if (tensor.kind == Tensor::Kind::kScan) {
      text += " " + std::string(to_string(tensor.reduction)) + " along " +
              std::to_string(tensor.scanned);
    }
    text += " " + scalar(tensor.body);
    return text + (tensor.updates ? updates(*tensor.updates) : "");
  }

  [[nodiscard]] std::string updates(const Updates& updates) const {
    return " updates [" + numbers_text(updates.sizes) + "] from " + std::to_string(updates.first) +
           " to " + std::to_string(updates.last) + " at [" + indices(updates.place) + "] " +
           std::string(updates.reduction ? to_string(*updates.reduction) : "set") + " " +
           scalar(updates.value);
  }

  [[nodiscard]] std::string indices(const std::vector<Index>& list) const {
    std::string text;
    for (const Index& each : list) {
      text += (text.empty() ? "" : ", ") + index(each);
    }
    return text;
  }

  [[nodiscard]] std::string index(const Index& index) const {
    std::string text;
    for (const Index::Term& term : index.terms()) {
      const std::string factor = term.factor == Expr(1) ? "" : number_text(term.factor) + "*";
      text += (text.empty() ? "" : " + ") + factor + atom(*term.atom);
    }
    const bool is_zero = index.constant() == Expr(0);
    return text.empty() || !is_zero
               ? text + (text.empty() ? "" : " + ") + number_text(index.constant())
               : text;
  }

  [[nodiscard]] std::string atom(const Atom& atom) const {
    switch (atom.kind) {
      case Atom::Kind::kVariable: return "i" + std::to_string(atom.variable);
      case Atom::Kind::kComputed: return "<" + scalar(atom.scalar) + ">";
      case Atom::Kind::kQuotient:
        return "(" + index(atom.operand) + ") / " + number_text(atom.divisor);
      case Atom::Kind::kRemainder:
        return "(" + index(atom.operand) + ") % " + number_text(atom.divisor);
    }
    return "";
  }

  [[nodiscard]] std::string scalar(ScalarId id) const {
    const Scalar& scalar = program_.pool[id];
    const std::string type = std::string(ir::to_string(scalar.dtype));
    switch (scalar.op) {
      case ScalarOp::kConstant: return print_constant(scalar, 17) + ":" + type;
      case ScalarOp::kIndex: return "index(" + index(scalar.indices[0]) + ")";
      case ScalarOp::kRead:
        return "t" + std::to_string(scalar.tensor.index()) + "[" + indices(scalar.indices) + "]";
      case ScalarOp::kLoad:
      case ScalarOp::kReduced:
        throw Error(ErrorCode::kInvalidArgument, "a loop program has no loads of a nest");
      default: break;
    }
    std::string arguments;
    for (const ScalarId operand : scalar.operands) {
      arguments += (arguments.empty() ? "" : ", ") + this->scalar(operand);
    }
    return std::string(to_string(scalar.op)) + (scalar.op == ScalarOp::kCast ? "." + type : "") +
           "(" + arguments + ")";
  }

  const LoopProgram& program_;
};

}  // namespace

std::string print(const LoopProgram& program) {
  return ProgramPrinter(program).run();
}

}  // namespace kiln::codegen
