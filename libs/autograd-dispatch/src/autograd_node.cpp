#include "autograd_node.hpp"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "kiln/base/error.hpp"
#include "read_symbols.hpp"
#include "relations.hpp"

namespace kiln::autograd_dispatch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Carries a gradient that was asked for with create_graph: a compiled backward has no history of
// its own, and a gradient that silently has none would be wrong.
struct NoDoubleBackward : torch::autograd::Function<NoDoubleBackward> {
  static at::Tensor forward(AutogradContext*,
                            const at::Tensor& gradient,
                            at::TensorList /*sources*/) {
    return gradient.detach();
  }
  static variable_list backward(AutogradContext*, const variable_list&) {
    throw Error(
        ErrorCode::kUnsupported,
        "double backward through a compiled function is not supported: it computes gradients "
        "once. Take the first gradient inside the function that is compiled "
        "(torch::autograd::grad with create_graph), and return what is computed from it");
  }
};

struct CompiledNode : torch::autograd::Function<CompiledNode> {
  // Only `differentiated` are autograd's to follow; the graph takes all of `inputs`.
  static variable_list forward(AutogradContext* context,
                               const std::shared_ptr<TrainingGraphs>& graphs,
                               const std::shared_ptr<const Tensors>& inputs,
                               at::TensorList /*differentiated*/) {
    TrainingGraphs::Forward computed = graphs->run_forward(*inputs);
    context->set_materialize_grads(false);
    context->save_for_backward(std::move(computed.saved));
    auto holder = c10::make_intrusive<Holder>(graphs);
    holder->symbols = std::move(computed.symbols);
    for (const std::uint32_t input : graphs->backward_writes()) {
      holder->written.push_back((*inputs)[input]);
      holder->versions.push_back(version_of((*inputs)[input]));
    }
    context->saved_data["graphs"] = c10::IValue::make_capsule(std::move(holder));

    variable_list constant;
    for (std::size_t i = 0; i < computed.results.size(); ++i) {
      if (!graphs->is_differentiable(i)) {
        constant.push_back(computed.results[i]);
      }
    }
    context->mark_non_differentiable(constant);
    return computed.results;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const c10::intrusive_ptr<torch::CustomClassHolder> capsule =
        context->saved_data["graphs"].toCapsule();
    auto& holder = static_cast<Holder&>(*capsule);
    holder.require_writable();
    const std::shared_ptr<TrainingGraphs>& graphs = holder.graphs;
    variable_list saved = context->get_saved_variables();
    variable_list sources = c10::GradMode::is_enabled() ? saved : variable_list();
    Tensors tangents;
    for (const std::uint32_t result : graphs->tangents()) {
      tangents.push_back(std::move(gradients[result]));
    }
    if (c10::GradMode::is_enabled()) {
      std::copy_if(tangents.begin(),
                   tangents.end(),
                   std::back_inserter(sources),
                   [](const at::Tensor& tangent) { return tangent.defined(); });
      if (graphs->saves_differentiated()) {
        add_inputs(sources);
      }
    }
    variable_list computed;
    {
      const at::NoGradGuard no_grad;
      computed = graphs->run_backward(
          {.results = {}, .saved = std::move(saved), .symbols = holder.symbols},
          std::move(tangents),
          holder.written);
    }
    holder.note_versions();
    variable_list all(2);  // Graphs and inputs have none.
    for (at::Tensor& gradient : computed) {
      if (c10::GradMode::is_enabled() && gradient.defined()) {
        gradient = NoDoubleBackward::apply(gradient, at::TensorList(sources));
      }
      all.push_back(std::move(gradient));
    }
    all.emplace_back();  // Of the tensor that stands in where no input requires grad.
    return all;
  }

 private:
  // What was computed from the inputs has no history of its own; these stand for the inputs.
  static void add_inputs(variable_list& sources) {
    for (const torch::autograd::Edge& edge : torch::autograd::get_current_node()->next_edges()) {
      if (edge.is_valid()) {
        sources.push_back(at::empty({0}));
        torch::autograd::impl::set_gradient_edge(sources.back(), edge);
      }
    }
  }

  struct Holder : torch::CustomClassHolder {
    explicit Holder(std::shared_ptr<TrainingGraphs> held) : graphs(std::move(held)) {}
    std::shared_ptr<TrainingGraphs> graphs;
    ir::Bindings symbols;  // Apart from the saved tensors, which hooks see.
    Tensors written;       // Inputs that the backward writes, and how often they had been written.
    std::vector<std::int64_t> versions;

    void require_writable() const {
      for (std::size_t i = 0; i < written.size(); ++i) {
        if (c10::GradMode::is_enabled() && written[i].requires_grad()) {
          throw Error(ErrorCode::kUnsupported,
                      "a compiled function does not support input mutations with requires_grad in "
                      "backward for create_graph=True");
        }
        if (version_of(written[i]) != versions[i]) {
          throw Error(ErrorCode::kInvalidArgument,
                      "an input that the compiled backward writes has been modified by an inplace "
                      "operation since the forward");
        }
      }
    }
    void note_versions() {
      for (std::size_t i = 0; i < written.size(); ++i) {
        versions[i] = version_of(written[i]);
      }
    }
  };
};

// The backward was compiled for tangents in the layout of the outputs; autograd may bring others,
// or none.
at::Tensor in_layout_of(const at::Tensor& tangent,
                        const TangentPlan& plan,
                        const ir::Bindings& symbols) {
  const std::vector<std::int64_t> strides = evaluate_all(plan.strides, symbols);
  if (!tangent.defined()) {
    const auto device = c10::Device(static_cast<c10::DeviceType>(plan.device.type),
                                    static_cast<c10::DeviceIndex>(plan.device.index));
    const auto options =
        at::TensorOptions().dtype(static_cast<c10::ScalarType>(plan.dtype)).device(device);
    return at::empty_strided(evaluate_all(plan.sizes, symbols), strides, options).zero_();
  }
  const at::Tensor resolved = tangent.resolve_conj().resolve_neg();
  if (resolved.layout() == c10::kStrided && resolved.strides() == strides) {
    return resolved;
  }
  at::Tensor copy = at::empty_strided(tangent.sizes(), strides, tangent.options());
  return copy.copy_(resolved);
}

// Whether the storages of `a` and `b` are the same memory. Generated code may have wrapped it
// twice.
bool share_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.has_storage() && b.has_storage() && a.storage().data() == b.storage().data();
}

// Makes `tensor` count writes together with `other`, whose memory it is on.
void count_writes_with(const at::Tensor& tensor, const at::Tensor& other) {
  if (!tensor.is_same(other) && share_bytes(tensor, other) && !tensor.is_inference() &&
      !other.is_inference()) {
    torch::autograd::impl::set_version_counter(tensor,
                                               torch::autograd::impl::version_counter(other));
  }
}

// Each gradient may become a leaf's own, which is then added to: two views of one memory must not.
void separate(Tensors& gradients) {
  std::unordered_map<const void*, const at::Tensor*> first;
  for (at::Tensor& gradient : gradients) {
    if (!gradient.defined() || !gradient.has_storage() || gradient.numel() == 0) {
      continue;
    }
    const auto [known, is_new] = first.emplace(gradient.storage().data(), &gradient);
    if (!is_new && !known->second->is_same(gradient)) {
      gradient = gradient.clone();
    }
  }
}

}  // namespace

Tensors without_views(Tensors tensors) {
  for (at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.is_view()) {
      tensor = tensor.detach();
    }
  }
  return tensors;
}

TrainingGraphs::TrainingGraphs(const Plan& plan,
                               CompiledGraph forward,
                               std::function<CompiledGraph()> backward)
    : computed_(plan.computed),
      tangents_(plan.tangents),
      gradients_(plan.gradients),
      backward_writes_(plan.backward_writes),
      reached_by_(plan.reached_by),
      deterministic_(plan.deterministic),
      grad_mode_(plan.grad_mode),
      differentiates_(plan.inputs.size(), false),
      differentiable_(plan.computed + plan.node_aliases.size(), false),
      forward_backward_(plan.forward_backward),
      forward_(std::move(forward)),
      make_backward_(std::move(backward)) {
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    differentiates_[gradients_[i]] = forward_backward_.has_gradient[i];
  }
  for (const std::uint32_t result : tangents_) {
    differentiable_[result] = true;
  }
  for (const OutputPlan& alias : plan.node_aliases) {
    node_aliases_.emplace_back(alias, ViewMaker(alias.view));
  }
}

const CompiledGraph& TrainingGraphs::backward() {
  // Not std::call_once: after a function that throws, that of the thread sanitizer waits for ever.
  if (!has_backward_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(making_backward_);
    if (make_backward_) {
      backward_ = make_backward_();
      make_backward_ = {};  // And with it the graph.
      has_backward_.store(true, std::memory_order_release);
    }
  }
  return backward_;
}

TrainingGraphs::Forward TrainingGraphs::run_forward(const Tensors& inputs) const {
  Tensors all = forward_(inputs);
  Forward forward;
  forward.symbols = read_symbols(forward_backward_.symbols, inputs);
  forward.saved.assign(std::make_move_iterator(all.begin() + computed_),
                       std::make_move_iterator(all.end()));
  all.resize(computed_);
  for (const auto& [saved, input] : forward_backward_.saved_on_input) {
    count_writes_with(forward.saved[saved], inputs[input]);
  }
  for (const auto& [saved, result] : forward_backward_.saved_on_result) {
    count_writes_with(forward.saved[saved], all[result]);
  }
  forward.results = without_views(std::move(all));
  // A view of a result would hold on to it, and it, through its history, to the view.
  forward.saved = without_views(std::move(forward.saved));
  for (const auto& [alias, maker] : node_aliases_) {
    const bool of_input = alias.kind == OutputPlan::Kind::kAliasOfArgument;
    forward.results.push_back(
        maker.make(of_input ? inputs[alias.index] : forward.results[alias.index], {}));
  }
  return forward;
}

Tensors TrainingGraphs::run_backward(Forward forward, Tensors tangents, const Tensors& written) {
  if (at::globalContext().deterministicAlgorithms() && !deterministic_) {
    throw Error(ErrorCode::kInvalidArgument,
                "the function was compiled without deterministic algorithms, and its backward runs "
                "with them");
  }
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const CompiledGraph& compiled = backward();
  const auto is_reached = [&](std::size_t gradient) {
    return std::any_of(reached_by_[gradient].begin(),
                       reached_by_[gradient].end(),
                       [&](std::uint32_t tangent) { return tangents[tangent].defined(); });
  };
  Tensors inputs;
  for (const std::int64_t size : evaluate_all(forward_backward_.saved_sizes, forward.symbols)) {
    inputs.push_back(at::scalar_tensor(size, at::kLong));
  }
  std::move(forward.saved.begin(), forward.saved.end(), std::back_inserter(inputs));
  forward.saved.clear();
  for (std::size_t i = 0; i < tangents.size(); ++i) {
    inputs.push_back(in_layout_of(tangents[i], forward_backward_.tangents[i], forward.symbols));
  }
  const Tensors computed = compiled(std::move(inputs));
  Tensors gradients;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (differentiates_[gradients_[i]]) {
      gradients.push_back(is_reached(i) ? computed[i] : at::Tensor());
    }
  }
  for (std::size_t i = 0; i < written.size(); ++i) {
    written[i].copy_(computed[gradients_.size() + i]);
  }
  separate(gradients);
  return gradients;
}

Tensors TrainingGraphs::apply(const std::shared_ptr<TrainingGraphs>& graphs,
                              const Tensors& inputs) {
  Tensors differentiated;
  bool any = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (graphs->differentiates_[i]) {
      differentiated.push_back(inputs[i]);
      any = any || inputs[i].requires_grad();
    }
  }
  if (!any) {
    // Results require grad though no input does: of a leaf that the function made.
    differentiated.push_back(at::zeros({0}).set_requires_grad(true));
  }
  // A function that was traced with grad mode off has switched it on.
  const at::AutoGradMode mode(c10::GradMode::is_enabled() || !graphs->grad_mode_);
  return CompiledNode::apply(
      graphs, std::make_shared<const Tensors>(inputs), at::TensorList(differentiated));
}

}  // namespace kiln::autograd_dispatch
