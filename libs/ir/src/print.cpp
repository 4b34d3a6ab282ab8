#include "kiln/ir/print.hpp"

#include <algorithm>

#include "text.hpp"

namespace kiln::ir {
namespace {

bool is_word(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$") ==
             std::string_view::npos;
}

void append_flags(const Node& node, std::string* out) {
  const auto append_numbers = [out](std::string_view word, const auto& items, auto append) {
    if (!items.empty()) {
      *out += ' ';
      *out += word;
      *out += '(';
      for (std::size_t i = 0; i < items.size(); ++i) {
        *out += i == 0 ? "" : ", ";
        append(items[i]);
      }
      *out += ')';
    }
  };
  append_numbers(
      "mutates", node.mutates, [out](std::uint32_t argument) { *out += std::to_string(argument); });
  append_numbers("view", node.aliases, [out](const Alias& alias) {
    *out += std::to_string(alias.result) + ':' + std::to_string(alias.argument);
  });
  *out += node.random ? " random" : "";
  *out += node.effectful ? " effectful" : "";
  *out += node.backward ? " backward" : "";
  *out += node.grad_mode ? "" : " nograd";
  *out += node.autocast ? " autocast" : "";
  if (!node.provenance.module_path.empty()) {
    *out += " module ";
    append_quoted(node.provenance.module_path, out);
  }
  if (!node.provenance.source.empty()) {
    *out += " source ";
    append_quoted(node.provenance.source, out);
  }
  if (node.provenance.sequence >= 0) {
    *out += " sequence " + std::to_string(node.provenance.sequence);
  }
}

void append_node(const Graph& graph, const Node& node, std::string* out) {
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    *out += i == 0 ? "" : ", ";
    append_value(graph, node.results[i], out);
    if (node.results[i].valid()) {
      *out += ": ";
      append_type(graph.value(node.results[i]).meta, true, out);
    }
  }
  *out += node.results.empty() ? "" : " = ";
  *out += node.target;
  *out += '(';
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    *out += i == 0 ? "" : ", ";
    append_argument(graph, node.arguments[i], out);
  }
  *out += ')';
  append_flags(node, out);
}

void append_input(const Graph& graph, const Input& input, std::string* out) {
  const ValueMeta& meta = graph.value(input.value).meta;
  *out += "input ";
  append_value(graph, input.value, out);
  *out += ": ";
  append_type(meta, false, out);
  *out += ' ';
  *out += to_string(input.kind);
  if (!input.name.empty()) {
    *out += ' ';
    append_quoted(input.name, out);
  }
  const auto* tensor = std::get_if<TensorMeta>(&meta);
  *out += tensor != nullptr && tensor->requires_grad ? " grad" : "";
}

void append_output(const Graph& graph, const Output& output, std::string* out) {
  *out += "output ";
  append_value(graph, output.value, out);
  *out += ' ';
  *out += to_string(output.kind);
  if (output.kind == OutputKind::kMutation || output.kind == OutputKind::kGradient) {
    *out += ' ' + std::to_string(output.input);
  }
  if (!output.name.empty()) {
    *out += ' ';
    append_quoted(output.name, out);
  }
}

void append_graph(const Graph& graph, const std::string& indent, std::string* out) {
  const std::string inner = indent + "  ";
  *out += indent + "graph ";
  if (is_word(graph.name())) {
    *out += graph.name();
  } else {
    append_quoted(graph.name(), out);
  }
  *out += " {\n";
  for (const auto& [name, range] : graph.symbols()) {
    *out += inner + "symbol %" + name + " in [" + std::to_string(range.low) + ", " +
            std::to_string(range.high) + "]";
    const auto hint = graph.hints().find(name);
    *out += hint == graph.hints().end() ? "\n" : " hint " + std::to_string(hint->second) + "\n";
  }
  for (const Guard& guard : graph.guards()) {
    *out += inner + "guard ";
    append_quoted(guard.to_string(), out);
    *out += '\n';
  }
  for (const Graph& subgraph : graph.subgraphs()) {
    append_graph(subgraph, inner, out);
  }
  for (const Input& input : graph.inputs()) {
    *out += inner;
    append_input(graph, input, out);
    *out += '\n';
  }
  for (const Node& node : graph.nodes()) {
    *out += inner;
    append_node(graph, node, out);
    *out += '\n';
  }
  for (const Output& output : graph.outputs()) {
    *out += inner;
    append_output(graph, output, out);
    *out += '\n';
  }
  *out += indent + "}\n";
}

}  // namespace

std::string print(const Graph& graph) {
  std::string out;
  append_graph(graph, "", &out);
  return out;
}

std::string print_node(const Graph& graph, NodeId node) {
  std::string out;
  append_node(graph, graph.node(node), &out);
  return out;
}

std::string print_argument(const Graph& graph, const Argument& argument) {
  std::string out;
  append_argument(graph, argument, &out);
  return out;
}

std::string print_type(const ValueMeta& meta) {
  std::string out;
  append_type(meta, true, &out);
  return out;
}

std::string print_place(const Graph& graph, std::size_t node) {
  const Node& at = graph.nodes()[node];
  const std::string& source = at.provenance.source;
  const std::string& module = at.provenance.module_path;
  return "operator " + std::to_string(node) + ", " + at.target +
         (source.empty() ? "" : " at " + source) + (module.empty() ? "" : " in " + module);
}

std::string argument_name(const Node& node, std::size_t position) {
  std::string_view rest = std::string_view(node.signature).substr(0, node.signature.find("->"));
  for (std::size_t i = 0; i < position && !rest.empty(); ++i) {
    rest.remove_prefix(std::min(rest.size(), rest.find(',') + 1));
  }
  const std::string_view argument = rest.substr(0, rest.find(','));
  const std::size_t space = argument.rfind(' ');
  return space == std::string_view::npos ? std::to_string(position)
                                         : std::string(argument.substr(space + 1));
}

}  // namespace kiln::ir
