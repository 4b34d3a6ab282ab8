// Joint graphs for the tests: the files of tests/filetests/partitioner, and shorthands.

#pragma once

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

}  // namespace kiln::partitioner
