#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "program/emit.hpp"
#include "program/extern_call.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen {
namespace {

// A compiler's time grows faster than the function it is given.
constexpr std::size_t kStepsPerFunction = 100;

// Calls of kernels in a row from which on they are data: compilers take longer over code.
constexpr std::size_t kCallsInTable = 8;

constexpr const char* kTable = R"(
struct Operand {
  int buffer;
  Int64 offset;
};
struct Call {
  void (*kernel)(void* const*, const Int64*);
  const Int64* sizes;
  int operands;
};
)";

class StepEmitter {
 public:
  StepEmitter(Emission& emission, std::span<const std::string> kernel_names)
      : emission_(emission),
        program_(emission.program()),
        text_(emission.text()),
        kernel_names_(kernel_names),
        first_at_(program_.schedule->steps.size()),
        last_at_(program_.schedule->steps.size()) {
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      const BufferPlan& plan = program_.buffers[i];
      const bool owned =
          plan.memory == Memory::kAllocated || plan.memory == Memory::kCalleeAllocated;
      if (plan.used && owned) {
        if (plan.memory == Memory::kAllocated && plan.first < first_at_.size()) {
          first_at_[plan.first].push_back(BufferId(i));
        }
        if (plan.last < last_at_.size()) {
          last_at_[plan.last].push_back(BufferId(i));
        }
      }
    }
  }

  std::vector<std::string> run() {
    std::vector<std::string> functions;
    const std::size_t count = program_.schedule->steps.size();
    const std::vector<std::size_t> runs = plain_runs();
    declare_table(runs);
    for (std::size_t i = 0; i < count;) {
      functions.push_back("steps" + std::to_string(functions.size()));
      text_.line();
      const CodeWriter::Scope function = text_.scope(
          "static __attribute__((noinline)) int $(Instance& m, KilnCall& call)", functions.back());
      for (std::size_t written = 0; i < count && written < kStepsPerFunction; ++written) {
        if (runs[i] >= kCallsInTable) {
          table(i, runs[i]);
          i += runs[i];
        } else {
          step(static_cast<std::uint32_t>(i++));
        }
      }
      text_.line("return 0;");
    }
    return functions;
  }

 private:
  // A call of a kernel whose operands are known when the library is made, and behind which nothing
  // is released.
  [[nodiscard]] bool is_plain(std::size_t index) const {
    const auto* call = std::get_if<KernelCall>(&program_.schedule->steps[index]);
    return call != nullptr && !program_.dynamic() && !emission_.record_kernels &&
           last_at_[index].empty() && !program_.kernel(index).checks_indices &&
           !emission_.selects_kernels && !emission_.operations().asynchronous;
  }

  // For each step how many plain ones there are from it on.
  [[nodiscard]] std::vector<std::size_t> plain_runs() const {
    std::vector<std::size_t> runs(program_.schedule->steps.size() + 1, 0);
    for (std::size_t i = runs.size() - 1; i-- > 0;) {
      runs[i] = is_plain(i) ? runs[i + 1] + 1 : 0;
    }
    return runs;
  }

  void declare_table(const std::vector<std::size_t>& runs) {
    if (std::none_of(
            runs.begin(), runs.end(), [](std::size_t run) { return run >= kCallsInTable; })) {
      return;
    }
    std::size_t most = 1;
    for (const Step& step : program_.schedule->steps) {
      if (const auto* call = std::get_if<KernelCall>(&step)) {
        most = std::max(most, call->operands.size());
      }
    }
    text_.verbatim(kTable);
    const CodeWriter::Scope function = text_.scope(
        "static void run_calls(Instance& m, const Call* call, int count, const "
        "Operand* operand)");
    text_.line("void* buffers[$];", most);
    {
      const CodeWriter::Scope loop =
          text_.scope("for (const Call* const end = call + count; call != end; ++call)");
      text_.line("for (int i = 0; i < call->operands; ++i, ++operand)");
      text_.line("  buffers[i] = (char*)m.at[operand->buffer] + operand->offset;");
      text_.line("call->kernel(buffers, call->sizes);");
    }
  }

  void table(std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      allocate_for(i);
    }
    std::string operands;
    const CodeWriter::Scope block = text_.scope();
    {
      const CodeWriter::Scope table = text_.declaration("static const Call calls[] =");
      for (std::size_t i = first; i < first + count; ++i) {
        const auto& call = std::get<KernelCall>(program_.schedule->steps[i]);
        for (const KernelCall::Operand& operand : call.operands) {
          operands += (operands.empty() ? "{" : ", {") + std::to_string(operand.buffer.index()) +
                      ", " + emission_.byte_offset(operand.buffer, operand.offset) + "}";
        }
        text_.line("{$, $, $},  // $",
                   kernel_name(i),
                   emission_.list(program_.use(i).sizes),
                   call.operands.size(),
                   comment_line(program_.kernel(i).comment));
      }
    }
    text_.line("static const Operand operands[] = {$};", operands.empty() ? "{}" : operands);
    text_.line("run_calls(m, calls, $, operands);", count);
  }

  void allocate_for(std::size_t index) {
    for (const BufferId buffer : first_at_[index]) {
      emission_.allocate(buffer);
    }
  }

  void step(std::uint32_t index) {
    allocate_for(index);
    const Step& step = program_.schedule->steps[index];
    if (emission_.record_kernels) {
      text_.open();
      text_.line("const Range range($);", string_literal(range_name(index)));
    }
    if (const auto* kernel = std::get_if<KernelCall>(&step)) {
      call_kernel(index, *kernel);
    } else {
      const ir::Node& node = program_.graph->node(std::get<ExternCall>(step).node);
      std::string note = "// " + comment_line(node.target);
      if (!node.provenance.module_path.empty()) {
        note += " in " + comment_line(node.provenance.module_path);
      }
      text_.line(note);
      emit_extern_call(emission_, node, index);
    }
    if (emission_.record_kernels) {
      text_.close();
    }
    for (const BufferId buffer : last_at_[index]) {
      text_.line("release($);", emission_.owned(buffer));
    }
  }

  [[nodiscard]] const std::string& kernel_name(std::size_t index) const {
    return kernel_names_[program_.use(index).kernel];
  }

  [[nodiscard]] std::string range_name(std::size_t index) const {
    const Step& step = program_.schedule->steps[index];
    if (std::holds_alternative<KernelCall>(step)) {
      return kernel_name(index) + " " + comment_line(program_.kernel(index).comment);
    }
    return program_.graph->node(std::get<ExternCall>(step).node).target;
  }

  void call_kernel(std::size_t index, const KernelCall& call) {
    const KernelSource& kernel = program_.kernel(index);
    text_.line("// $", comment_line(kernel.comment));
    std::string operands;
    for (const KernelCall::Operand& operand : call.operands) {
      operands +=
          (operands.empty() ? "" : ", ") + emission_.pointer(operand.buffer, operand.offset);
    }
    const bool asynchronous = emission_.operations().asynchronous;
    if (const auto flag = emission_.flag(program_.use(index).kernel)) {
      operands += asynchronous ? ", (void*)(m.out_of_range + " + std::to_string(*flag) + ")"
                               : ", &m.out_of_range";
    }
    const std::string sizes = emission_.list(program_.use(index).sizes);
    if (call.operands.empty()) {
      text_.line(emission_.operations().launch(kernel_name(index), "nullptr", sizes));
      return;
    }
    const CodeWriter::Scope block = text_.scope();
    text_.line("void* const buffers[] = {$};", operands);
    text_.line(emission_.operations().launch(kernel_name(index), "buffers", sizes));
    if (kernel.checks_indices && !asynchronous) {
      text_.line("if (m.out_of_range) return refuse_index(m, call);");
    }
  }

  Emission& emission_;
  const Program& program_;
  CodeWriter& text_;
  std::span<const std::string> kernel_names_;
  std::vector<std::vector<BufferId>> first_at_;
  std::vector<std::vector<BufferId>> last_at_;
};

}  // namespace

std::vector<std::string> emit_steps(Emission& emission, std::span<const std::string> kernel_names) {
  return StepEmitter(emission, kernel_names).run();
}

}  // namespace kiln::codegen
