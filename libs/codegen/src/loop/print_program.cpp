#include <string>

#include "kiln/base/error.hpp"
#include "kiln/ir/print.hpp"
#include "loop/program_text.hpp"
#include "loop/scalar_printer.hpp"

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

class ProgramPrinter final : public ScalarPrinter {
 public:
  explicit ProgramPrinter(const LoopProgram& program)
      : ScalarPrinter(program.pool), program_(program) {}

  // The tensors from the end of the last call's to `end`.
  std::string lines_before(std::size_t end) {
    std::string text;
    for (; next_ < end; ++next_) {
      text += "t" + std::to_string(next_) + " = " + tensor(program_.tensors[next_]) + "\n";
    }
    return text;
  }

 private:
  [[nodiscard]] std::string tensor(const Tensor& tensor) const {
    std::string text = std::string(word_for(tensor.kind)) + " " +
                       std::string(ir::to_string(tensor.dtype)) + "[" + numbers(tensor.sizes) +
                       "]{" + numbers(tensor.strides) + "}";
    text += tensor.is_view ? " view" : "";
    text += tensor.is_concatenation ? " concatenation" : "";
    text += tensor.reread.valid() ? " rereads t" + std::to_string(tensor.reread.index()) : "";
    if (tensor.kind == Tensor::Kind::kMemory) {
      return text;
    }
    if (tensor.kind == Tensor::Kind::kReduction) {
      text += " " + std::string(to_string(tensor.reduction)) + " over [" + numbers(tensor.reduced) +
              "]";
    } else if (tensor.kind == Tensor::Kind::kScan) {
      text += " " + std::string(to_string(tensor.reduction)) + " along " +
              std::to_string(tensor.scanned);
    }
    text += " " + scalar(tensor.body);
    return text + (tensor.updates ? updates(*tensor.updates) : "");
  }

  [[nodiscard]] std::string updates(const Updates& updates) const {
    return " updates [" + numbers(updates.sizes) + "] from " + std::to_string(updates.first) +
           " to " + std::to_string(updates.last) + " at [" + indices(updates.place) + "] " +
           std::string(updates.reduction ? to_string(*updates.reduction) : "set") + " " +
           scalar(updates.value);
  }

  // "16" or "{2*s0 + 1}".
  [[nodiscard]] std::string number(const Expr& expr) const override {
    return expr.is_constant() ? expr.to_string() : "{" + expr.to_string() + "}";
  }

  [[nodiscard]] std::string variable(int variable) const override {
    return "i" + std::to_string(variable);
  }

  [[nodiscard]] std::string constant(const Scalar& scalar) const override {
    return digits_of(scalar) + ":" + std::string(ir::to_string(scalar.dtype));
  }

  [[nodiscard]] std::string memory(const Scalar& scalar) const override {
    if (scalar.op != ScalarOp::kRead) {
      throw Error(ErrorCode::kInvalidArgument, "a loop program has no loads of a nest");
    }
    return "t" + std::to_string(scalar.tensor.index()) + "[" + indices(scalar.indices) + "]";
  }

  const LoopProgram& program_;
  std::size_t next_ = 0;
};

}  // namespace

std::string print(const LoopProgram& program) {
  return ProgramPrinter(program).lines_before(program.tensors.size());
}

std::string print(const ir::Graph& graph, const LoopProgram& program) {
  ProgramPrinter printer(program);
  std::string text;
  std::size_t end = 0;
  const auto is_input = [&] {
    return end < program.tensors.size() && !program.tensors[end].node.valid();
  };
  while (is_input()) {
    text += "# %" + graph.value(program.tensors[end].value).name + "\n";
    text += printer.lines_before(++end);
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    while (end < program.tensors.size() && program.tensors[end].node.index() == i) {
      ++end;
    }
    text += "# " + ir::print_node(graph, ir::NodeId(i)) +
            (program.extern_at[i] ? " (no loops)\n" : "\n") + printer.lines_before(end);
  }
  return text;
}

}  // namespace kiln::codegen
