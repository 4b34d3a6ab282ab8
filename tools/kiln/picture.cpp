#include "picture.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "format.hpp"

namespace kiln::tool {
namespace {

constexpr const char* kStyle =
    "  graph [rankdir=TB, fontname=\"Helvetica\", ranksep=0.4];\n"
    "  node [shape=box, style=\"rounded,filled\", color=\"#5a6b7b\", fontname=\"Helvetica\", "
    "fontsize=11];\n"
    "  edge [color=\"#8795a1\", fontname=\"Helvetica\", fontsize=9, fontcolor=\"#5a6b7b\"];\n";

std::string dot_quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result + "\"";
}

// Who wrote a buffer: an input of the model or a step.
class StepPicture {
 public:
  StepPicture(const Plan& plan, const ir::Graph& graph)
      : plan_(plan), graph_(graph), writer_(plan.buffers.size()) {}

  std::string run() {
    out_ << "digraph " << dot_quoted(plan_.graph) << " {\n" << kStyle;
    inputs();
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      step(i);
    }
    outputs();
    out_ << "}\n";
    return out_.str();
  }

 private:
  void inputs() {
    for (const ir::Input& input : graph_.inputs()) {
      const std::string& value = graph_.value(input.value).name;
      const auto location = plan_.values.find(value);
      if (location == plan_.values.end()) {
        continue;
      }
      const std::string name = dot_quoted("input " + value);
      writer_[location->second.buffer] = name;
      const bool user = input.kind == ir::InputKind::kUser;
      out_ << "  " << name << " [shape=ellipse, label="
           << dot_quoted((input.name.empty() ? value : input.name) + "\n" +
                         std::string(ir::to_string(input.kind)))
           << ", fillcolor=" << (user ? "\"#d7ecff\"" : "\"#fff1cc\"") << "];\n";
    }
  }

  void step(std::size_t index) {
    const Plan::Step& step = plan_.steps[index];
    const std::string name = "step" + std::to_string(index);
    std::set<std::size_t> reads, writes;
    std::string label;
    if (step.is_kernel) {
      label = plan_.kernels[step.kernel].name;
      for (const std::string& node : step.nodes) {
        label += "\n" + node;
      }
      for (const Plan::Operand& operand : step.operands) {
        (operand.written ? writes : reads).insert(operand.buffer);
      }
    } else {
      label = "libtorch\n" + step.target;
      reads = buffers_of(step.reads);
      writes = buffers_of(step.results);
    }
    out_ << "  " << name << " [id=" << dot_quoted(name) << ", label=" << quoted(label)
         << ", fillcolor=" << (step.is_kernel ? "\"#e3f4e1\"" : "\"#eceff1\"") << "];\n";
    for (const std::size_t buffer : reads) {
      if (!writes.contains(buffer)) {
        edge(buffer, name);
      }
    }
    for (const std::size_t buffer : writes) {
      writer_[buffer] = name;
    }
  }

  void outputs() {
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const ir::Output& output = graph_.outputs()[i];
      if (!output.value.valid()) {
        continue;
      }
      const auto location = plan_.values.find(graph_.value(output.value).name);
      if (location != plan_.values.end()) {
        const std::string name = "output" + std::to_string(i);
        out_ << "  " << name << " [shape=ellipse, fillcolor=\"#d9f2d9\", label="
             << dot_quoted(std::string(ir::to_string(output.kind)) + " " + std::to_string(i))
             << "];\n";
        edge(location->second.buffer, name);
      }
    }
  }

  std::set<std::size_t> buffers_of(const std::vector<std::string>& values) const {
    std::set<std::size_t> buffers;
    for (const std::string& value : values) {
      if (const auto found = plan_.values.find(value); found != plan_.values.end()) {
        buffers.insert(found->second.buffer);
      }
    }
    return buffers;
  }

  void edge(std::size_t buffer, const std::string& reader) {
    if (writer_[buffer]) {
      const auto bytes = static_cast<double>(plan_.buffers[buffer].bytes);
      out_ << "  " << *writer_[buffer] << " -> " << reader
           << " [label=" << dot_quoted(describe_bytes(bytes)) << "];\n";
    }
  }

  const Plan& plan_;
  const ir::Graph& graph_;
  std::vector<std::optional<std::string>> writer_;
  std::ostringstream out_;
};

}  // namespace

std::string steps_to_dot(const Plan& plan, const ir::Graph& graph) {
  return StepPicture(plan, graph).run();
}

std::string arena_to_svg(const Plan& plan) {
  if (plan.arena_bytes == 0 || plan.steps.empty()) {
    return {};
  }
  constexpr double kWidth = 900, kHeight = 260, kLeft = 70, kBottom = 24;
  constexpr std::array<const char*, 6> kColours = {
      "#8ecae6", "#a8dadc", "#ffd6a5", "#caffbf", "#bdb2ff", "#ffadad"};
  const double step_width = kWidth / static_cast<double>(plan.steps.size());
  const double per_byte = kHeight / static_cast<double>(plan.arena_bytes);
  std::ostringstream out;
  out << "<svg class=\"arena\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 "
      << kLeft + kWidth + 4 << " " << kHeight + kBottom << "\" font-family=\"Helvetica\" "
      << "font-size=\"10\">\n<rect x=\"" << kLeft << "\" y=\"0\" width=\"" << kWidth
      << "\" height=\"" << kHeight << "\" fill=\"#f6f8fa\"/>\n";
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const Plan::Buffer& buffer = plan.buffers[i];
    if (buffer.memory != "arena" || !buffer.used) {
      continue;
    }
    const double height = static_cast<double>(buffer.bytes) * per_byte;
    out << "<rect x=\"" << kLeft + static_cast<double>(buffer.first) * step_width << "\" y=\""
        << kHeight - static_cast<double>(buffer.offset) * per_byte - height << "\" width=\""
        << static_cast<double>(buffer.last - buffer.first + 1) * step_width << "\" height=\""
        << std::max(height, 0.5) << "\" fill=\"" << kColours[i % kColours.size()]
        << "\" stroke=\"#5a6b7b\" stroke-width=\"0.4\"><title>buffer " << i << ", " << buffer.dtype
        << ", " << describe_bytes(static_cast<double>(buffer.bytes)) << ", steps " << buffer.first
        << " to " << buffer.last << ", at " << buffer.offset << "</title></rect>\n";
  }
  out << "<text x=\"" << kLeft - 4 << "\" y=\"10\" text-anchor=\"end\">"
      << describe_bytes(static_cast<double>(plan.arena_bytes)) << "</text>\n<text x=\"" << kLeft - 4
      << "\" y=\"" << kHeight << "\" text-anchor=\"end\">0</text>\n<text x=\"" << kLeft << "\" y=\""
      << kHeight + 14 << "\">step 0</text>\n<text x=\"" << kLeft + kWidth << "\" y=\""
      << kHeight + 14 << "\" text-anchor=\"end\">step " << plan.steps.size() - 1
      << "</text>\n</svg>\n";
  return out.str();
}

std::string escape_markup(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

}  // namespace kiln::tool
