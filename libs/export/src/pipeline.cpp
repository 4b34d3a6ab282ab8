#include "pipeline.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/capture/convert.hpp"
#include "kiln/capture/identity.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/ir/functionalize.hpp"
#include "kiln/ir/verify.hpp"

namespace kiln::exporter {
namespace {

int rank_of(ir::InputKind kind) {
  switch (kind) {
    case ir::InputKind::kParameter: return 0;
    case ir::InputKind::kBuffer: return 1;
    case ir::InputKind::kConstant: return 2;
    default: return 3;
  }
}

std::string identifier(std::string_view prefix, std::string_view name) {
  std::string result(prefix);
  for (const char c : name) {
    result += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return result;
}

// One tensor can be owned under several names: the first is the one that the program uses.
class InputSorter {
 public:
  explicit InputSorter(Trace& trace) : trace_(trace), graph_(trace.recording.graph) {
    for (const ir::Value& value : graph_.values()) {
      names_.insert(value.name);
    }
  }

  std::map<std::string, at::Tensor> sort() {
    const Tensors& captured = trace_.recording.captured;
    const std::size_t users = graph_.inputs().size() - captured.size();
    std::vector<ir::Input> sorted(trace_.owned.size());
    std::vector<ir::Input> constants;
    std::map<std::string, at::Tensor> weights;
    for (const OwnedTensor& owned : trace_.owned) {
      weights[owned.name] = owned.tensor;
    }
    for (std::size_t i = 0; i < captured.size(); ++i) {
      ir::Input input = graph_.inputs()[users + i];
      note_storage(captured[i], input.value);
      const auto owner =
          std::find_if(trace_.owned.begin(), trace_.owned.end(), [&](const OwnedTensor& owned) {
            return capture::same_tensor(owned.tensor, captured[i]);
          });
      if (owner == trace_.owned.end()) {
        input.kind = ir::InputKind::kConstant;
        input.name = unused_name(weights, constants.size());
        rename(input.value, identifier("c_", input.name));
        weights[input.name] = captured[i];
        constants.push_back(input);
      } else {
        sorted[static_cast<std::size_t>(owner - trace_.owned.begin())] =
            owned_input(*owner, input.value);
      }
    }
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (!sorted[i].value.valid()) {
        sorted[i] = owned_input(trace_.owned[i], unused_input(trace_.owned[i]));
      }
    }
    std::vector<ir::Input> user_inputs(
        graph_.inputs().begin(), graph_.inputs().begin() + static_cast<std::ptrdiff_t>(users));
    for (std::size_t i = 0; i < user_inputs.size(); ++i) {
      const bool named = i < trace_.input_names.size() && !trace_.input_names[i].empty();
      user_inputs[i].name = named ? trace_.input_names[i] : "input" + std::to_string(i);
      rename(user_inputs[i].value, identifier("", user_inputs[i].name));
    }
    sorted.insert(sorted.end(), constants.begin(), constants.end());
    sorted.insert(sorted.end(), user_inputs.begin(), user_inputs.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const ir::Input& a, const ir::Input& b) {
      return rank_of(a.kind) < rank_of(b.kind);
    });
    graph_.inputs() = std::move(sorted);
    return weights;
  }

 private:
  static std::string unused_name(const std::map<std::string, at::Tensor>& weights,
                                 std::size_t from) {
    std::string name;
    do {
      name = "constant" + std::to_string(from++);
    } while (weights.contains(name));
    return name;
  }

  void note_storage(const at::Tensor& tensor, ir::ValueId value) {
    if (tensor.has_storage()) {
      storages_.try_emplace(tensor.storage().unsafeGetStorageImpl(), graph_.tensor(value).storage);
    }
  }

  void rename(ir::ValueId value, const std::string& wanted) {
    names_.erase(graph_.value(value).name);
    std::string name = wanted;
    for (int i = 1; !names_.insert(name).second; ++i) {
      name = wanted + "_" + std::to_string(i);
    }
    graph_.value(value).name = std::move(name);
  }

  ir::Input owned_input(const OwnedTensor& owned, ir::ValueId value) {
    const char* prefix = owned.kind == ir::InputKind::kParameter ? "p_"
                         : owned.kind == ir::InputKind::kBuffer  ? "b_"
                                                                 : "c_";
    rename(value, identifier(prefix, owned.name));
    return {value, owned.kind, owned.name};
  }

  ir::ValueId unused_input(const OwnedTensor& owned) {
    ir::TensorMeta meta = capture::meta_of(owned.tensor);
    const auto storage = owned.tensor.has_storage()
                             ? storages_.find(owned.tensor.storage().unsafeGetStorageImpl())
                             : storages_.end();
    meta.storage = storage == storages_.end() ? graph_.new_storage() : storage->second;
    const ir::ValueId value = graph_.add_input("", std::move(meta), owned.kind, owned.name);
    note_storage(owned.tensor, value);
    names_.insert(graph_.value(value).name);
    return value;
  }

  Trace& trace_;
  ir::Graph& graph_;
  std::set<std::string> names_;
  std::map<const c10::StorageImpl*, ir::StorageId> storages_;
};

std::uint32_t position_of(const ir::Graph& graph, const Trace& trace, const GradientOf& gradient) {
  std::size_t user = 0;
  for (std::uint32_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::Input& input = graph.inputs()[i];
    const bool found = rank_of(input.kind) == 3
                           ? gradient.is_user && user++ == gradient.index
                           : !gradient.is_user && input.name == trace.owned[gradient.index].name;
    if (found) {
      return i;
    }
  }
  throw Error(ErrorCode::kInternal, "a gradient of something that is not an input");
}

}  // namespace

ExportedProgram assemble(Trace trace, const Tensors& example) {
  ExportedProgram program;
  program.sample_inputs = example;
  program.weights = InputSorter(trace).sort();
  ir::Graph& graph = trace.recording.graph;
  const std::size_t outputs = graph.outputs().size() - trace.gradients.size();
  for (std::size_t i = 0; i < trace.gradients.size(); ++i) {
    ir::Output& output = graph.outputs()[outputs + i];
    output.kind = ir::OutputKind::kGradient;
    output.input = position_of(graph, trace, trace.gradients[i]);
  }
  check_mutations(graph, !trace.gradients.empty());

  program.graph = ir::remove_dead_code(ir::functionalize(std::move(graph)));
  ir::verify(program.graph);
  program.in_spec = flat_in_spec(example.size());
  program.out_spec = flat_out_spec(outputs);
  for (std::uint32_t i = 0; i < example.size(); ++i) {
    program.input_leaves.push_back({.tensor = i});
  }
  for (std::uint32_t i = 0; i < outputs; ++i) {
    program.output_leaves.push_back({.tensor = i});
  }
  return program;
}

}  // namespace kiln::exporter
