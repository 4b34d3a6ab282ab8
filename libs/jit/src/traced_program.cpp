#include "traced_program.hpp"

#include <ATen/Functions.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <string_view>

#include "graph_change.hpp"
#include "kiln/autograd_dispatch/plan_bytes.hpp"
#include "kiln/capture/identity.hpp"
#include "kiln/ir/canonical.hpp"
#include "kiln/ir/print.hpp"
#include "module_state.hpp"

namespace kiln {

using autograd_dispatch::JointTrace;

namespace {

// The type of an argument as the node's signature has it: "Scalar".
std::string_view argument_type(const ir::Node& node, std::size_t position) {
  std::string_view rest = std::string_view(node.signature).substr(0, node.signature.find("->"));
  for (; position > 0 && !rest.empty(); --position) {
    rest.remove_prefix(std::min(rest.size(), rest.find(',') + 1));
  }
  return rest.substr(0, rest.find_first_of(" ,"));
}

bool is_number(const ir::Node& node, std::size_t position) {
  const ir::Argument& argument = node.arguments[position];
  if (std::holds_alternative<double>(argument) || std::holds_alternative<ir::RealExpr>(argument) ||
      std::holds_alternative<std::complex<double>>(argument)) {
    return true;
  }
  return std::holds_alternative<ir::Expr>(argument) &&
         argument_type(node, position).starts_with("Scalar");
}

// Factors that most calls leave at one.
bool is_neutral(const ir::Node& node, std::size_t position, const std::string& text) {
  const std::string name = ir::argument_name(node, position);
  return (name == "alpha" || name == "beta") && (text == "1" || text == "1.0");
}

std::vector<ir::ValueId> constants_of(const ir::Graph& graph) {
  std::vector<ir::ValueId> values;
  for (const ir::Input& input : graph.inputs()) {
    if (input.kind == ir::InputKind::kConstant) {
      values.push_back(input.value);
    }
  }
  return values;
}

// The same memory, perhaps under another tensor object, or another storage object round memory that
// the program owns (from_blob).
bool is_same_memory(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) {
    return a.defined() == b.defined();
  }
  return a.is_same(b) || capture::same_tensor(a, b) ||
         (a.numel() > 0 && a.has_storage() && b.has_storage() &&
          a.const_data_ptr() == b.const_data_ptr() && a.dtype() == b.dtype() &&
          a.device() == b.device() && a.sizes() == b.sizes() && a.strides() == b.strides());
}

// What the program found when it asked whether tensors are equal. That depends on data, and the
// graph makes sure of it in each call.
std::vector<std::string> comparisons_in(const ir::Graph& graph) {
  std::vector<std::string> texts;
  for (const ir::Node& node : graph.nodes()) {
    for (const ir::Argument& argument : node.arguments) {
      const auto* text = std::get_if<std::string>(&argument);
      if (text != nullptr && text->find("(at::equal)") != std::string::npos) {
        texts.push_back(*text);
      }
    }
  }
  return texts;
}

bool has_same_elements(const at::Tensor& a, const at::Tensor& b) {
  const at::NoGradGuard no_grad;
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype() || a.device() != b.device() ||
      a.layout() != b.layout()) {
    return false;
  }
  return at::equal(a, b) || (a.is_floating_point() && at::allclose(a, b, 0, 0, /*equal_nan=*/true));
}

}  // namespace

TracedProgram::TracedProgram(const JointTrace& trace,
                             const std::vector<at::Tensor>& inputs,
                             const torch::nn::Module* module)
    : graph_(trace.graph),
      captured_(trace.captured),
      plan_(autograd_dispatch::to_bytes(trace.plan)) {
  for (const at::Tensor& input : inputs) {
    has_history_.push_back(input.defined() && !input.is_leaf());
    offsets_.push_back(input.defined() && input.has_storage() ? input.storage_offset() : 0);
  }
  captured_names_ = module == nullptr ? std::vector<std::string>(captured_.size())
                                      : known_names_of(captured_, *module);
}

std::string TracedProgram::captured_text(std::size_t position) const {
  const std::string& name = captured_names_[position];
  return name.empty() ? c10::str("captured tensor ", position) : "captured tensor '" + name + "'";
}

std::vector<std::string> TracedProgram::captured_texts() const {
  const std::vector<ir::ValueId> values = constants_of(graph_);
  const std::vector<const ir::Node*> users = first_users(graph_);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < captured_.size(); ++i) {
    const std::string& name = captured_names_[i];
    const ir::Node* user = users[values.at(i).index()];
    texts.push_back((name.empty() ? std::to_string(i) : "'" + name + "'") + ", " +
                    ir::print_type(graph_.value(values[i]).meta) +
                    (user == nullptr ? ", returned" : ", first used by " + place_of(*user)));
  }
  return texts;
}

std::vector<std::string> TracedProgram::constant_texts() const {
  constexpr std::size_t kMostTexts = 64;
  const std::vector<const ir::Node*> users = first_users(graph_);
  std::vector<std::string> texts;
  std::size_t left_out = 0;
  for (const ir::Node& node : graph_.nodes()) {
    for (std::size_t i = 0; i < node.arguments.size() && !node.backward; ++i) {
      const std::string text =
          is_number(node, i) ? ir::print_argument(graph_, node.arguments[i]) : "";
      if (text.empty() || is_neutral(node, i, text)) {
        continue;
      }
      if (texts.size() == kMostTexts) {
        ++left_out;
      } else {
        texts.push_back(place_of(node_with_number(node, users)) + ": " + text);
      }
    }
  }
  if (left_out > 0) {
    texts.push_back(c10::str("and ", left_out, " more"));
  }
  return texts;
}

std::optional<std::string> TracedProgram::change_of_captured(const JointTrace& now) const {
  const std::vector<ir::ValueId> values = constants_of(graph_);
  const std::vector<const ir::Node*> users = first_users(graph_);
  for (std::size_t i = 0; i < std::min(captured_.size(), now.captured.size()); ++i) {
    const at::Tensor& was = captured_[i];
    const at::Tensor& is = now.captured[i];
    if (is_same_memory(was, is)) {
      continue;
    }
    const ir::Node* user = users[values.at(i).index()];
    // Values of `torch::tensor(values)` are in a tensor that only the trace has. So is what the
    // function has let go of, by putting another one in its place.
    const bool is_let_go = is.use_count() == 1;
    if (is_let_go && has_same_elements(was, is)) {
      continue;
    }
    if (is_let_go && user != nullptr && user->target == "aten.clone.default") {
      return "the values that " + place_of(*user) +
             " puts into a tensor are others: pass them as an argument";
    }
    if (was.numel() == 0 && user == nullptr) {
      return "the function returns other numbers, or results of another structure" +
             std::string(": pass what decides them as an argument");
    }
    const std::string whose =
        "the " + captured_text(i) +
        (captured_names_[i].empty() && user != nullptr ? ", which " + place_of(*user) + " uses,"
                                                       : "");
    return is_let_go ? whose + " was replaced during the call: write it in place or return it"
                     : whose +
                           " is another tensor now: write it in place, pass it as an argument, "
                           "or pass the module that it belongs to";
  }
  return std::nullopt;
}

std::optional<std::string> TracedProgram::change_in(const JointTrace& now) const {
  if (comparisons_in(graph_) != comparisons_in(now.graph)) {
    return std::nullopt;
  }
  if (auto change = change_of_training(graph_, now.graph)) {
    return change;
  }
  if (has_same_operators(graph_, now.graph) && captured_.size() == now.captured.size()) {
    if (auto change = change_of_captured(now)) {
      return change;
    }
  }
  if (ir::digest_of(now.graph) != ir::digest_of(graph_)) {
    const auto change = change_of_operators(graph_, now.graph);
    return change ? change : "the function uses, writes or returns other tensors than before";
  }
  if (autograd_dispatch::to_bytes(now.plan) != plan_) {
    return "the tensors that the function takes and returns share memory in another way, or "
           "require gradients in another";
  }
  return std::nullopt;
}

bool has_effects_in_trace(const ir::Graph& graph) {
  return std::ranges::any_of(
             graph.nodes(),
             [](const ir::Node& node) { return node.effectful && !node.results.empty(); }) ||
         std::ranges::any_of(graph.subgraphs(), has_effects_in_trace);
}

}  // namespace kiln
