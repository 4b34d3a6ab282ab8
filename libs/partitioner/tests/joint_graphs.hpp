// Joint graphs for the tests: the files of tests/filetests/partitioner, and shorthands.

#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "kiln/ir/graph.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/partitioner/partition.hpp"

namespace kiln::partitioner {

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The file's parts: the joint graph, and the forward and backward that are expected.
inline std::vector<std::string> parts_of(const std::string& text) {
  const std::string separator = "\n----\n";
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t end = text.find(separator); end != std::string::npos;
       end = text.find(separator, start)) {
    parts.push_back(text.substr(start, end + 1 - start));
    start = end + separator.size();
  }
  parts.push_back(text.substr(start));
  return parts;
}

/// The joint graph of tests/filetests/partitioner/<name>.kir.
inline ir::Graph joint_graph(const std::string& name) {
  const std::filesystem::path folder = KILN_FILETESTS;
  return ir::parse(parts_of(read_text(folder / (name + ".kir"))).front());
}

/// How many inputs and outputs.
inline std::pair<std::size_t, std::size_t> arity(const ir::Graph& graph) {
  return {graph.inputs().size(), graph.outputs().size()};
}

/// The names of the outputs' values, "none" for absent ones.
inline std::vector<std::string> output_names(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Output& output : graph.outputs()) {
    names.push_back(output.value.valid() ? graph.value(output.value).name : "none");
  }
  return names;
}

inline std::vector<std::string> input_names(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Input& input : graph.inputs()) {
    names.push_back(graph.value(input.value).name);
  }
  return names;
}

/// The names of what the forward saves.
inline std::vector<std::string> saved_names(const Partition& partition) {
  std::vector<std::string> names;
  for (const ir::Output& output : partition.forward.outputs()) {
    if (output.kind == ir::OutputKind::kSaved) {
      names.push_back(partition.forward.value(output.value).name);
    }
  }
  return names;
}

/// 'T' for every output that is a tensor, 'S' for every symbolic integer.
inline std::string output_pattern(const ir::Graph& graph) {
  std::string pattern;
  for (const ir::Output& output : graph.outputs()) {
    pattern += graph.value(output.value).is_tensor() ? 'T' : 'S';
  }
  return pattern;
}

inline std::vector<std::string> targets(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Node& node : graph.nodes()) {
    names.push_back(node.target);
  }
  return names;
}

/// Whether a node of `graph` runs `target`.
inline bool runs(const ir::Graph& graph, const std::string& target) {
  const std::vector<std::string> all = targets(graph);
  return std::find(all.begin(), all.end(), target) != all.end();
}

/// exp of a product, whose backward needs the product's result.
inline constexpr const char* kExpOfProduct = R"(graph g {
  input %x: f32[64, 64] user grad
  input %w: f32[64, 64] parameter "w" grad
  input %tangent: f32[64, 64] tangent
  %mm: f32[64, 64] = aten.mm.default(%x, %w)
  %exp: f32[64, 64] = aten.exp.default(%mm)
  %sin: f32[64, 64] = aten.sin.default(%exp)
  %cos: f32[64, 64] = aten.cos.default(%exp) backward
  %g: f32[64, 64] = aten.mul.Tensor(%tangent, %cos) backward
  %g_1: f32[64, 64] = aten.mul.Tensor(%g, %exp) backward
  %t: f32[64, 64]{1, 64} = aten.t.default(%w) view(0:0) backward
  %gx: f32[64, 64] = aten.mm.default(%g_1, %t) backward
  %t_1: f32[64, 64]{1, 64} = aten.t.default(%x) view(0:0) backward
  %gw: f32[64, 64] = aten.mm.default(%t_1, %g_1) backward
  output %sin user
  output %gx gradient 0
  output %gw gradient 1
})";

}  // namespace kiln::partitioner
