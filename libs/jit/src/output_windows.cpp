#include "output_windows.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "kiln/ir/dead_code.hpp"

namespace kiln {
namespace {

using autograd_dispatch::OutputPlan;
using autograd_dispatch::Plan;
using autograd_dispatch::ViewPlan;
using autograd_dispatch::Window;

constexpr std::string_view kWindow = "kiln.output_window";

// The same calls with the same arguments, to the same one of several results (`x.unbind(0)[i]`);
// what they are made from and to may have any size.
bool has_same_views(const std::optional<ir::Graph>& a, const std::optional<ir::Graph>& b) {
  if (!a || !b) {
    return a.has_value() == b.has_value();
  }
  const auto is_same_call = [](const ir::Node& one, const ir::Node& other) {
    return one.target == other.target && one.arguments == other.arguments &&
           one.results.size() == other.results.size();
  };
  return std::ranges::equal(a->nodes(), b->nodes(), is_same_call) &&
         a->outputs()[0].value == b->outputs()[0].value;
}

// Whether a window can describe the result of `views`: it reads elements with the same type and
// bits.
bool keeps_elements(const std::optional<ir::Graph>& views) {
  if (!views) {
    return true;  // The output already is a window.
  }
  const ir::TensorMeta& from = views->tensor(views->inputs()[0].value);
  const ir::TensorMeta& to = views->tensor(views->outputs()[0].value);
  return from.dtype == to.dtype && from.conjugate == to.conjugate && from.negative == to.negative;
}

// Tensors of the same sizes and strides, without memory.
Tensors shapes_of(const Tensors& tensors) {
  Tensors shapes;
  for (const at::Tensor& tensor : tensors) {
    shapes.push_back(tensor.defined() && tensor.layout() == c10::kStrided
                         ? at::empty_strided(
                               tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta))
                         : at::Tensor());
  }
  return shapes;
}

}  // namespace

OutputWindows::OutputWindows(const Plan& plan, bool may_replace)
    : outputs_(plan.outputs), may_replace_(may_replace), differing_(plan.outputs.size()) {}

std::string OutputWindows::difference(const Plan& plan, const Tensors& inputs) {
  for (std::size_t i = 0; i < std::min(outputs_.size(), plan.outputs.size()); ++i) {
    const ViewPlan& known = outputs_[i].view;
    const ViewPlan& traced = plan.outputs[i].view;
    const bool is_window = !may_replace_ && !known.views;
    if (is_window ? keeps_elements(traced.views) : has_same_views(known.views, traced.views)) {
      continue;
    }
    if (!may_replace_ || !keeps_elements(known.views) || !keeps_elements(traced.views)) {
      return "output " + std::to_string(i) + " is another view at other sizes";
    }
    differing_[i].push_back(shapes_of(inputs));
  }
  return {};
}

Plan OutputWindows::without_windows(Plan plan) {
  for (OutputPlan& output : plan.outputs) {
    output.view.views.reset();
    output.view.window = {};
  }
  return plan;
}

void OutputWindows::add_to(ir::Graph& graph, const Plan& plan) {
  for (const OutputPlan& output : plan.outputs) {
    if (output.is_alias()) {
      const Window& window = output.view.window;
      ir::Node node;
      node.target = kWindow;
      node.arguments = {window.sizes, window.strides, window.offset};
      node.effectful = true;  // Nothing uses it, and it must not be removed as dead.
      graph.add_node(std::move(node), {});
    }
  }
}

std::vector<Window> OutputWindows::take_from(ir::Graph& graph) const {
  std::vector<Window> windows;
  for (std::uint32_t i = 0; i < graph.nodes().size(); ++i) {
    ir::Node& node = graph.node(ir::NodeId(i));
    if (node.target == kWindow) {
      node.effectful = false;
      windows.push_back({.sizes = std::get<std::vector<ir::Expr>>(node.arguments[0]),
                         .strides = std::get<std::vector<ir::Expr>>(node.arguments[1]),
                         .offset = std::get<ir::Expr>(node.arguments[2])});
    }
  }
  if (!windows.empty()) {
    graph = ir::remove_dead_code(graph);
  }
  return windows;
}

void OutputWindows::write_to(Plan& plan,
                             std::vector<Window> windows,
                             const SymbolicSizes& sizes) const {
  std::size_t next = 0;
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    OutputPlan& output = plan.outputs[i];
    if (output.is_alias()) {
      output.view.window = std::move(windows.at(next++));
      // Traces outside the range do not matter.
      if (std::ranges::any_of(differing_[i],
                              [&](const Tensors& inputs) { return sizes.holds(inputs); })) {
        output.view.views.reset();
      }
    }
  }
}

}  // namespace kiln
