// What tests ask of exported programs.

#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/export/exported_program.hpp"

namespace kiln::exporter {

/// The message of the `Error` that `action` throws.
inline std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// What the graph of `program` gives, weights included.
inline Tensors interpret(const ExportedProgram& program, const Tensors& inputs) {
  const at::NoGradGuard no_grad;
  return capture::Interpreter(program.graph).run(program.graph_inputs(inputs));
}

/// The operators of `graph`, in order.
inline std::vector<std::string> targets_of(const ir::Graph& graph) {
  std::vector<std::string> targets;
  for (const ir::Node& node : graph.nodes()) {
    targets.push_back(node.target);
  }
  return targets;
}

inline bool has(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

}  // namespace kiln::exporter
