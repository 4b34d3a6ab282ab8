#include "schedule/print_schedule.hpp"

#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <set>
#include <sstream>
#include <vector>

#include "kiln/ir/print.hpp"
#include "loop/print.hpp"

namespace kiln::codegen {
namespace {

using ir::Expr;

const char* word_for(Buffer::Kind kind) {
  switch (kind) {
    case Buffer::Kind::kInput: return "input";
    case Buffer::Kind::kConstant: return "constant";
    case Buffer::Kind::kTemporary: return "temporary";
    case Buffer::Kind::kOutput: return "output";
  }
  return "";
}

bool is_whole(const Buffer& buffer, const Location& location) {
  return location.offset == Expr(0) && location.sizes == buffer.sizes &&
         location.strides == buffer.strides;
}

// "f32[4, 8]{1, 4}".
std::string type_of(const Buffer& buffer) {
  return ir::print_type(ir::TensorMeta{.dtype = buffer.dtype,
                                       .device = buffer.device,
                                       .sizes = buffer.sizes,
                                       .strides = buffer.strides});
}

std::string list_of(const std::vector<Expr>& values) {
  std::string text;
  for (const Expr& value : values) {
    text += (text.empty() ? "" : ", ") + value.to_string();
  }
  return text;
}

// The double whose bits are passed as an integer argument.
std::string real_text(const Expr& argument) {
  std::array<char, 32> text{};
  const auto value = std::bit_cast<double>(argument.constant().value_or(0));
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

class SchedulePrinter {
 public:
  SchedulePrinter(const ir::Graph& graph, const Schedule& schedule)
      : graph_(graph), schedule_(schedule) {
    name_buffers();
  }

  std::string run() {
    for (std::size_t i = 0; i < schedule_.buffers.size(); ++i) {
      const Buffer& buffer = schedule_.buffers[i];
      line(std::string(word_for(buffer.kind)) + " " + names_[i] + ": " + type_of(buffer));
    }
    print_views();
    for (const Step& step : schedule_.steps) {
      if (const auto* call = std::get_if<KernelCall>(&step)) {
        print_kernel(*call);
      } else {
        line("call " + ir::print_node(graph_, std::get<ExternCall>(step).node));
      }
    }
    return "schedule " + graph_.name() + " {\n" + text_ + "}\n";
  }

 private:
  void line(const std::string& words) { text_ += "  " + words + "\n"; }

  void name_buffers() {
    names_.resize(schedule_.buffers.size());
    for (std::size_t i = 0; i < schedule_.locations.size(); ++i) {
      const std::optional<Location>& location = schedule_.locations[i];
      if (location && names_[location->buffer.index()].empty() &&
          is_whole(schedule_.buffers[location->buffer.index()], *location)) {
        names_[location->buffer.index()] = "%" + graph_.values()[i].name;
      }
    }
    for (const Step& step : schedule_.steps) {
      const auto* call = std::get_if<KernelCall>(&step);
      const auto* nest = call == nullptr ? nullptr : std::get_if<LoopNest>(&call->computation);
      for (std::size_t i = 0; nest != nullptr && i < nest->operands.size(); ++i) {
        std::string& name = names_[call->operands[i].buffer.index()];
        if (name.empty()) {
          name = "t" + std::to_string(nest->operands[i].tensor.index());
        }
      }
    }
    int scratch = 0;
    for (std::string& name : names_) {
      if (name.empty()) {
        name = "scratch" + std::to_string(scratch++);
      }
    }
  }

  // Operands of calls, and outputs, that are not the whole buffer named after them.
  void print_views() {
    std::set<ir::ValueId> seen;
    for (const Step& step : schedule_.steps) {
      if (const auto* call = std::get_if<ExternCall>(&step)) {
        for_each_operand(graph_.node(call->node), [&](ir::ValueId value) { seen.insert(value); });
      }
    }
    for (const ir::Output& output : graph_.outputs()) {
      seen.insert(output.value);
    }
    for (const ir::ValueId value : seen) {
      if (!value.valid() || !schedule_.locations[value.index()]) {
        continue;
      }
      const Location& location = *schedule_.locations[value.index()];
      const std::string name = "%" + graph_.value(value).name;
      const std::string& buffer = names_[location.buffer.index()];
      if (name != buffer) {
        const bool moved = !(location.offset == Expr(0));
        line("view " + name + ": [" + list_of(location.sizes) + "]{" + list_of(location.strides) +
             "}" + (moved ? "@" + print_number(location.offset) : "") + " of " + buffer);
      }
    }
  }

  // "%x@128" begins at element 128 of %x.
  [[nodiscard]] std::string name_of(const KernelCall::Operand& operand) const {
    const bool moved = !(operand.offset == Expr(0));
    return names_[operand.buffer.index()] + (moved ? "@" + print_number(operand.offset) : "");
  }

  void print_kernel(const KernelCall& call) {
    if (const auto* library = std::get_if<LibraryCall>(&call.computation)) {
      print_library_call(call, *library);
      return;
    }
    const auto& nest = std::get<LoopNest>(call.computation);
    std::vector<std::string> operands;
    for (const KernelCall::Operand& operand : call.operands) {
      operands.push_back(name_of(operand));
    }
    std::istringstream lines(print(schedule_.program, nest, operands));
    for (std::string each; std::getline(lines, each);) {
      line(each);
    }
  }

  void print_library_call(const KernelCall& call, const LibraryCall& library) {
    std::string text = "kernel " + library.operation;
    for (std::size_t i = 0; i < library.constants.size(); ++i) {
      text += (i == 0 ? "<" : ", ") + std::to_string(library.constants[i]);
    }
    text += library.constants.empty() ? "" : ">";
    for (const bool written : {false, true}) {
      std::string operands;
      for (const KernelCall::Operand& operand : call.operands) {
        if (operand.written == written) {
          operands += (operands.empty() ? " " : ", ") + name_of(operand);
        }
      }
      text += operands.empty() ? "" : (written ? " writes" : " reads") + operands;
    }
    line(text);
    print_arguments(library);
  }

  // Arguments, as many on a line as fit.
  void print_arguments(const LibraryCall& library) {
    constexpr std::size_t kWidth = 96;
    std::string text;
    for (std::size_t i = 0; i < library.parameters.size(); ++i) {
      const Expr& value = library.parameters[i];
      if (value == Expr(0)) {
        continue;
      }
      const bool has_name = i < library.fields.size();
      const std::string words =
          (has_name ? std::string(library.fields[i].name) : std::to_string(i)) + " = " +
          (has_name && library.fields[i].is_real ? real_text(value) : value.to_string());
      if (!text.empty() && text.size() + words.size() > kWidth) {
        line("  " + text + ",");
        text.clear();
      }
      text += (text.empty() ? "" : ", ") + words;
    }
    if (!text.empty()) {
      line("  " + text);
    }
  }

  const ir::Graph& graph_;
  const Schedule& schedule_;
  std::vector<std::string> names_;  // By buffer.
  std::string text_;
};

}  // namespace

std::string print(const ir::Graph& graph, const Schedule& schedule) {
  return SchedulePrinter(graph, schedule).run();
}

}  // namespace kiln::codegen
