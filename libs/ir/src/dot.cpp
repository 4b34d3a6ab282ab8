#include "kiln/ir/dot.hpp"

#include <map>
#include <string_view>
#include <vector>

#include "kiln/ir/print.hpp"
#include "text.hpp"

namespace kiln::ir {
namespace {

/// Modules by the parts of their paths.
struct Module {
  std::map<std::string, Module> children;
  std::vector<NodeId> nodes;
};

class Picture {
 public:
  explicit Picture(const Graph& graph) : graph_(graph) {}

  std::string run() {
    out_ += "digraph ";
    append_quoted(graph_.name(), &out_);
    out_ +=
        " {\n"
        "  graph [rankdir=TB, fontname=\"Helvetica\", fontsize=11, compound=true, ranksep=0.35];\n"
        "  node [shape=box, style=\"rounded,filled\", fillcolor=\"#ffffff\", color=\"#5a6b7b\", "
        "fontname=\"Helvetica\", fontsize=11];\n"
        "  edge [color=\"#8795a1\", fontname=\"Helvetica\", fontsize=9, fontcolor=\"#5a6b7b\"];\n";
    inputs();
    Module root;
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      place(&root, graph_.nodes()[i].provenance.module_path)->nodes.push_back(NodeId(i));
    }
    module(root, "  ", "");
    edges();
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  static Module* place(Module* root, std::string_view path) {
    while (!path.empty()) {
      const std::size_t dot = path.find('.');
      root = &root->children[std::string(path.substr(0, dot))];
      path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
    }
    return root;
  }

  void statement(const std::string& indent,
                 const std::string& name,
                 const std::string& label,
                 std::string_view style) {
    out_ += indent + name + " [label=";
    append_quoted(label, &out_);
    out_.append(style).append("];\n");
  }

  void inputs() {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Input& input = graph_.inputs()[i];
      const bool user = input.kind == InputKind::kUser;
      statement("  ",
                "input" + std::to_string(i),
                (input.name.empty() ? graph_.value(input.value).name : input.name) + "\n" +
                    std::string(to_string(input.kind)),
                user ? ", shape=ellipse, fillcolor=\"#d7ecff\""
                     : ", shape=ellipse, fillcolor=\"#fff1cc\"");
    }
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const Output& output = graph_.outputs()[i];
      if (output.value.valid()) {
        statement("  ",
                  "output" + std::to_string(i),
                  std::string(to_string(output.kind)) + " " + std::to_string(i),
                  ", shape=ellipse, fillcolor=\"#d9f2d9\"");
      }
    }
  }

  void module(const Module& here, const std::string& indent, const std::string& path) {
    for (const NodeId id : here.nodes) {
      const Node& node = graph_.node(id);
      const char* color = !node.mutates.empty()   ? ", fillcolor=\"#ffd9d9\""
                          : node.random           ? ", fillcolor=\"#e8d9ff\""
                          : !node.aliases.empty() ? ", style=\"rounded,dashed\""
                                                  : "";
      statement(indent, "node" + std::to_string(id.index()), node.target, color);
    }
    for (const auto& [name, child] : here.children) {
      const std::string full = path.empty() ? name : path + "." + name;
      out_ += indent + "subgraph ";
      append_quoted("cluster_" + full, &out_);
      out_ += " {\n" + indent + "  label=";
      append_quoted(full, &out_);
      out_ += "; style=rounded; color=\"#b8c2cc\"; bgcolor=\"#0000000a\";\n";
      module(child, indent + "  ", full);
      out_ += indent + "}\n";
    }
  }

  /// Where an edge from `id` starts.
  std::string source(ValueId id, const std::vector<std::size_t>& input_of) const {
    const NodeId producer = graph_.value(id).producer;
    return producer.valid() ? "node" + std::to_string(producer.index())
                            : "input" + std::to_string(input_of[id.index()]);
  }

  void edges() {
    std::vector<std::size_t> input_of(graph_.values().size(), 0);
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      input_of[graph_.inputs()[i].value.index()] = i;
    }
    const auto edge = [&](ValueId from, const std::string& to) {
      statement("  ", source(from, input_of) + " -> " + to, short_type(from), "");
    };
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      for_each_operand(graph_.nodes()[i],
                       [&](ValueId operand) { edge(operand, "node" + std::to_string(i)); });
    }
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      if (graph_.outputs()[i].value.valid()) {
        edge(graph_.outputs()[i].value, "output" + std::to_string(i));
      }
    }
  }

  /// Element type and sizes: strides would only clutter the drawing.
  [[nodiscard]] std::string short_type(ValueId id) const {
    if (!graph_.value(id).is_tensor()) {
      return print_type(graph_.value(id).meta);
    }
    TensorMeta meta;
    meta.dtype = graph_.tensor(id).dtype;
    meta.sizes = graph_.tensor(id).sizes;
    meta.strides = contiguous_strides(meta.sizes);
    return print_type(meta);
  }

  const Graph& graph_;
  std::string out_;
};

}  // namespace

std::string to_dot(const Graph& graph) {
  return Picture(graph).run();
}

}  // namespace kiln::ir
