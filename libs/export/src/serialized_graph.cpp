#include "serialized_graph.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "environment.hpp"
#include "kiln/capture/control_flow.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/export/exported_program.hpp"
#include "operator_call.hpp"
#include "serialized_arguments.hpp"
#include "serialized_provenance.hpp"
#include "symbolic_operators.hpp"

namespace kiln::exporter {
namespace {

constexpr const char* kHigherOrderTarget = "torch.ops.higher_order.";

// Calls `visit` with every name that an argument or a list of arguments mentions.
template <class Visit>
void for_each_name(const Json& json, Visit&& visit) {
  if (json.is_object()) {
    for (auto member = json.begin(); member != json.end(); ++member) {
      const Json& value = member.value();
      if ((member.key() == "name" || member.key() == "as_name") && value.is_string()) {
        visit(value.get_ref<const std::string&>());
      } else {
        for_each_name(value, visit);
      }
    }
  } else if (json.is_array()) {
    for (const Json& item : json) {
      for_each_name(item, visit);
    }
  }
}

// Autocast of one device, restored on exit.
class AutocastScope {
 public:
  AutocastScope(c10::DeviceType device, bool enabled, std::optional<c10::ScalarType> dtype)
      : device_(device),
        enabled_(at::autocast::is_autocast_enabled(device)),
        dtype_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(device, enabled);
    if (dtype) {
      at::autocast::set_autocast_dtype(device, *dtype);
    }
  }
  ~AutocastScope() {
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    at::autocast::set_autocast_enabled(device_, enabled_);
    at::autocast::set_autocast_dtype(device_, dtype_);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  c10::DeviceType device_;
  bool enabled_;
  c10::ScalarType dtype_;
};

class GraphRun {
 public:
  explicit GraphRun(const Json& graph) : graph_(graph) {
    const Json& nodes = graph.at("nodes");
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for_each_name(nodes[i].at("inputs"), [&](const std::string& name) { last_use_[name] = i; });
      for_each_name(nodes[i].at("outputs"),
                    [&](const std::string& name) { last_use_.try_emplace(name, i); });
    }
    for_each_name(graph.at("outputs"),
                  [&](const std::string& name) { last_use_[name] = nodes.size(); });
  }

  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs) {
    bind_inputs(std::move(inputs));
    const Json& nodes = graph_.at("nodes");
    std::unordered_map<std::size_t, std::vector<std::string>> dead;
    for (const auto& [name, position] : last_use_) {
      dead[position].push_back(name);
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      run_node(nodes[i]);
      for (const std::string& name : dead[i]) {
        environment_.forget(name);
      }
    }
    std::vector<c10::IValue> outputs;
    for (const Json& output : graph_.at("outputs")) {
      outputs.push_back(read_argument(output, environment_));
    }
    return outputs;
  }

 private:
  void bind_inputs(std::vector<c10::IValue> inputs) {
    const Json& formals = graph_.at("inputs");
    if (formals.size() != inputs.size()) {
      throw Error(ErrorCode::kCorrupt,
                  "a graph of " + std::to_string(formals.size()) + " inputs is called with " +
                      std::to_string(inputs.size()));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      for_each_name(formals[i],
                    [&](const std::string& name) { environment_.bind(name, inputs[i]); });
    }
  }

  void run_node(const Json& node) {
    const auto& target = node.at("target").get_ref<const std::string&>();
    const capture::ModuleScope module(module_path_of(node));
    const capture::SourceScope source(source_of(node));
    if (target.starts_with(kHigherOrderTarget)) {
      bind_outputs(node, run_higher_order(target, node.at("inputs")));
      return;
    }
    if (!target.starts_with("torch.ops.aten.") || target.find(".sym_") != std::string::npos ||
        target.find("._assert_") != std::string::npos) {
      std::vector<c10::IValue> arguments;
      for (const Json& input : node.at("inputs")) {
        arguments.push_back(read_argument(input.at("arg"), environment_));
      }
      if (std::optional<c10::IValue> result = evaluate_symbolic(target, arguments)) {
        bind_outputs(node, {*std::move(result)});
        return;
      }
    }
    if (!target.starts_with("torch.ops.")) {
      throw Error(ErrorCode::kUnsupported,
                  "the function " + target + " is Python's, not an operator");
    }
    bind_outputs(node, call_operator(target, node.at("inputs"), environment_));
  }

  // Regions that only change a mode are run in place; control flow is recorded with its bodies.
  std::vector<c10::IValue> run_higher_order(const std::string& target, const Json& inputs) {
    const std::string name = target.substr(std::string(kHigherOrderTarget).size());
    if (name == "wrap_with_set_grad_enabled") {
      const c10::AutoGradMode mode(argument(inputs, 0).toBool());
      return run_region(inputs, 1);
    }
    if (name == "wrap_with_autocast") {
      const c10::IValue dtype = argument(inputs, 1);
      const AutocastScope scope(
          c10::Device(argument(inputs, 0).toStringRef()).type(),
          argument(inputs, 2).toBool(),
          dtype.isNone() ? std::nullopt : std::optional(dtype.toScalarType()));
      return run_region(inputs, 4);
    }
    if (name == "invoke_subgraph") {
      return run_region(inputs, 0, /*skip=*/1);
    }
    if (name == "with_effects") {
      return run_with_effects(inputs);
    }
    if (name == "cond") {
      const c10::IValue predicate = argument(inputs, 0);
      const capture::TensorFunction if_true = body(inputs, 1);
      const capture::TensorFunction if_false = body(inputs, 2);
      const Tensors operands = tensors(inputs, 3);
      return values_of(predicate.isTensor()
                           ? capture::cond(predicate.toTensor(), if_true, if_false, operands)
                           : capture::cond(predicate.toBool(), if_true, if_false, operands));
    }
    if (name == "map_impl") {
      return values_of(capture::map(body(inputs, 0), tensors(inputs, 1), tensors(inputs, 2)));
    }
    throw Error(
        ErrorCode::kUnsupported,
        "the operator " + target + " has a loop that depends on data, which cannot be traced");
  }

  // A token, an operator and its arguments. The token is there for PyTorch's own passes to keep
  // calls with effects in order, as ours do without.
  std::vector<c10::IValue> run_with_effects(const Json& inputs) const {
    const Json& called = inputs.at(1).at("arg");
    if (!called.contains("as_operator")) {
      throw Error(ErrorCode::kCorrupt, "a call with effects names no operator");
    }
    const capture::EffectScope effects;
    std::vector<c10::IValue> results = call_operator(called.at("as_operator").get<std::string>(),
                                                     Json(inputs.begin() + 2, inputs.end()),
                                                     environment_);
    if (results.empty()) {
      results.emplace_back();
    }
    results.insert(results.begin(), c10::IValue());
    return results;
  }

  // The tensors of a list of operands.
  [[nodiscard]] Tensors tensors(const Json& inputs, std::size_t position) const {
    const c10::IValue list = argument(inputs, position);
    Tensors result;
    for (const c10::IValue& item :
         list.isNone() ? c10::ArrayRef<c10::IValue>() : list.toListRef()) {
      if (!item.isTensor()) {
        throw Error(ErrorCode::kUnsupported,
                    "control flow with an operand that is not a tensor cannot be traced");
      }
      result.push_back(item.toTensor());
    }
    return result;
  }

  static std::vector<c10::IValue> values_of(const Tensors& tensors) {
    return {tensors.begin(), tensors.end()};
  }

  // The subgraph at `position` as a function.
  [[nodiscard]] static capture::TensorFunction body(const Json& inputs, std::size_t position) {
    const Json& graph = subgraph(inputs, position);
    return [&graph](const Tensors& operands) {
      Tensors results;
      for (const c10::IValue& result : run_graph(graph, values_of(operands))) {
        results.push_back(result.toTensor());
      }
      return results;
    };
  }

  static const Json& subgraph(const Json& inputs, std::size_t position) {
    const Json& argument = inputs.at(position).at("arg");
    if (!argument.contains("as_graph")) {
      throw Error(ErrorCode::kCorrupt, "a region of the graph has no body");
    }
    return argument.at("as_graph").at("graph");
  }

  [[nodiscard]] c10::IValue argument(const Json& inputs, std::size_t position) const {
    return read_argument(inputs.at(position).at("arg"), environment_);
  }

  // Runs the subgraph at `position` on the arguments after it, less `skip`.
  std::vector<c10::IValue> run_region(const Json& inputs,
                                      std::size_t position,
                                      std::size_t skip = 0) {
    const Json& graph = subgraph(inputs, position);
    std::vector<c10::IValue> operands;
    for (std::size_t i = position + 1 + skip; i < inputs.size(); ++i) {
      operands.push_back(argument(inputs, i));
    }
    return run_graph(graph, std::move(operands));
  }

  void bind_outputs(const Json& node, std::vector<c10::IValue> results) {
    const Json& outputs = node.at("outputs");
    if (outputs.size() > results.size()) {
      throw Error(
          ErrorCode::kIncompatible,
          node.at("target").get<std::string>() + " has fewer results than the archive says");
    }
    // A region of several results is one list in the archive.
    const bool is_region =
        node.at("target").get_ref<const std::string&>().starts_with(kHigherOrderTarget);
    if (is_region && outputs.size() == 1 && outputs[0].contains("as_tensors")) {
      bind_list(outputs[0].at("as_tensors"), results);
      return;
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto [tag, value] = read_union(outputs[i]);
      if (tag == "as_tensors") {
        const auto elements = results[i].toListRef();
        bind_list(value, std::vector<c10::IValue>(elements.begin(), elements.end()));
      } else {
        for_each_name(value, [&](const std::string& name) { environment_.bind(name, results[i]); });
      }
    }
  }

  void bind_list(const Json& names, const std::vector<c10::IValue>& values) {
    if (names.size() > values.size()) {
      throw Error(ErrorCode::kIncompatible, "a list has fewer tensors than the archive says");
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      environment_.bind(names[i].at("name").get<std::string>(), values[i]);
    }
  }

  const Json& graph_;
  Environment environment_;
  std::unordered_map<std::string, std::size_t> last_use_;
};

}  // namespace

std::vector<c10::IValue> run_graph(const Json& graph, std::vector<c10::IValue> inputs) {
  return GraphRun(graph).run(std::move(inputs));
}

}  // namespace kiln::exporter
