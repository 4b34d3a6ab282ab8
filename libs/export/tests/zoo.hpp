// The archives that tests/zoo/make_archives.py wrote, with what PyTorch computed from them.

#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "kiln/capture/replay.hpp"
#include "kiln/export/exported_program.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::exporter {

inline std::filesystem::path zoo_archive(const std::string& name) {
  return std::filesystem::path(KILN_ZOO_DIRECTORY) / (name + ".pt2");
}

/// What a call returns, and what it changes in place, by name.
struct Effects {
  Tensors outputs;
  std::map<std::string, at::Tensor> updates;
};

/// What PyTorch computes on the archive's sample inputs.
inline Effects expected_effects(const std::string& name) {
  std::ifstream file(std::filesystem::path(KILN_ZOO_DIRECTORY) / (name + ".outputs.pt"),
                     std::ios::binary);
  REQUIRE(file);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)),
                                std::istreambuf_iterator<char>());
  const c10::IValue value = torch::pickle_load(bytes);
  Effects effects;
  for (const c10::IValue& output : value.toListRef().at(0).toListRef()) {
    effects.outputs.push_back(output.toTensor());
  }
  for (const auto& entry : value.toListRef().at(1).toGenericDict()) {
    effects.updates[entry.key().toStringRef()] = entry.value().toTensor();
  }
  return effects;
}

/// What the traced graph computes on the program's sample inputs.
inline Effects interpreted_effects(const ExportedProgram& program) {
  const at::NoGradGuard no_grad;
  const capture::Interpreter interpreter(program.graph, {.check_metadata = true});
  const Tensors results = interpreter.run(program.graph_inputs(program.sample_inputs));
  Effects effects;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ir::Output& output = program.graph.outputs()[i];
    if (output.kind == ir::OutputKind::kUser) {
      effects.outputs.push_back(results[i]);
    } else if (output.kind == ir::OutputKind::kMutation) {
      const ir::Input& input = program.graph.inputs()[output.input];
      const std::size_t first_user = program.graph.inputs().size() - program.sample_inputs.size();
      effects.updates[input.kind == ir::InputKind::kUser
                          ? "input" + std::to_string(output.input - first_user)
                          : input.name] = results[i];
    }
  }
  return effects;
}

inline void check_equal(const Tensors& actual, const Tensors& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    INFO("tensor " << i);
    REQUIRE(actual[i].defined());
    CHECK(actual[i].dtype() == expected[i].dtype());
    CHECK(actual[i].sizes() == expected[i].sizes());
    CHECK(torch::allclose(actual[i], expected[i], 1e-5, 1e-6));
  }
}

inline void check_equal(const Effects& actual, const Effects& expected) {
  check_equal(actual.outputs, expected.outputs);
  for (const auto& [name, tensor] : expected.updates) {
    INFO("update of " << name);
    REQUIRE(actual.updates.contains(name));
    CHECK(torch::allclose(actual.updates.at(name), tensor, 1e-5, 1e-6));
  }
}

}  // namespace kiln::exporter
