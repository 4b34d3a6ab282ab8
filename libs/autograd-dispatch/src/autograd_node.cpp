#include "autograd_node.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "kiln/base/error.hpp"

namespace kiln::autograd_dispatch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Carries a gradient that was asked for with create_graph: a compiled backward has no history of
// its own, and a gradient that silently has none would be wrong.
struct NoDoubleBackward : torch::autograd::Function<NoDoubleBackward> {
  static at::Tensor forward(AutogradContext*,
                            const at::Tensor& gradient,
                            at::TensorList /*saved*/) {
    return gradient.detach();
  }
  static variable_list backward(AutogradContext*, const variable_list&) {
    throw Error(ErrorCode::kUnsupported, "a compiled function does not support double backward");
  }
};

struct CompiledNode : torch::autograd::Function<CompiledNode> {
  static variable_list forward(AutogradContext* context,
                               const std::shared_ptr<TrainingGraphs>& graphs,
                               at::TensorList inputs) {
    const Plan& plan = graphs->plan();
    Tensors results = graphs->run_forward(inputs.vec());
    variable_list saved(std::make_move_iterator(results.begin() + plan.computed),
                        std::make_move_iterator(results.end()));
    results.resize(plan.computed);
    context->save_for_backward(std::move(saved));
    context->saved_data["graphs"] = c10::IValue::make_capsule(c10::make_intrusive<Holder>(graphs));
    context->saved_data["inputs"] = static_cast<std::int64_t>(inputs.size());

    variable_list constant;
    for (std::uint32_t i = 0; i < plan.computed; ++i) {
      if (std::find(plan.tangents.begin(), plan.tangents.end(), i) == plan.tangents.end()) {
        constant.push_back(results[i]);
      }
    }
    context->mark_non_differentiable(constant);
    return results;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto graphs =
        static_cast<Holder*>(context->saved_data["graphs"].toCapsule().get())->graphs;
    const Plan& plan = graphs->plan();
    variable_list saved = context->get_saved_variables();
    const variable_list differentiated = c10::GradMode::is_enabled() ? saved : variable_list();
    Tensors tangents;
    for (const std::uint32_t result : plan.tangents) {
      tangents.push_back(std::move(gradients[result]));
    }
    variable_list computed;
    {
      const at::NoGradGuard no_grad;
      computed = graphs->run_backward(std::move(saved), std::move(tangents));
    }
    if (c10::GradMode::is_enabled()) {
      for (at::Tensor& gradient : computed) {
        if (gradient.defined()) {
          gradient = NoDoubleBackward::apply(gradient, at::TensorList(differentiated));
        }
      }
    }
    variable_list all(1 + static_cast<std::size_t>(context->saved_data["inputs"].toInt()));
    for (std::size_t i = 0; i < plan.gradients.size(); ++i) {
      all[1 + plan.gradients[i]] = computed[i];
    }
    return all;
  }

 private:
  struct Holder : torch::CustomClassHolder {
    explicit Holder(std::shared_ptr<TrainingGraphs> held) : graphs(std::move(held)) {}
    std::shared_ptr<TrainingGraphs> graphs;
  };
};

// The backward was compiled for tangents in the layout of the outputs; autograd may bring others.
at::Tensor in_layout_of(const at::Tensor& tangent, const ir::TensorMeta& meta) {
  const auto integers = [](const std::vector<ir::Expr>& expressions) {
    std::vector<std::int64_t> values;
    for (const ir::Expr& expression : expressions) {
      values.push_back(*expression.constant());
    }
    return values;
  };
  const std::vector<std::int64_t> strides = integers(meta.strides);
  if (tangent.strides() == strides) {
    return tangent;
  }
  at::Tensor copy = at::empty_strided(tangent.sizes(), strides, tangent.options());
  return copy.copy_(tangent);
}

}  // namespace

TrainingGraphs::TrainingGraphs(Plan plan,
                               ir::Graph forward,
                               ir::Graph backward,
                               const Compiler& forward_compiler,
                               Compiler backward_compiler,
                               bool lazy_backward)
    : plan_(std::move(plan)),
      forward_(forward_compiler(forward)),
      backward_graph_(std::move(backward)),
      backward_compiler_(std::move(backward_compiler)) {
  if (!lazy_backward) {
    this->backward();
  }
}

const CompiledGraph& TrainingGraphs::backward() {
  std::call_once(backward_compiled_, [this] { backward_ = backward_compiler_(backward_graph_); });
  return backward_;
}

Tensors TrainingGraphs::run_backward(Tensors saved, Tensors tangents) {
  const CompiledGraph& compiled = backward();
  const std::span<const ir::Input> inputs = std::as_const(backward_graph_).inputs();
  const std::size_t first = inputs.size() - tangents.size();
  for (std::size_t i = 0; i < tangents.size(); ++i) {
    saved.push_back(in_layout_of(tangents[i], backward_graph_.tensor(inputs[first + i].value)));
  }
  return compiled(std::move(saved));
}

Tensors TrainingGraphs::apply(const std::shared_ptr<TrainingGraphs>& graphs,
                              const Tensors& inputs) {
  return CompiledNode::apply(graphs, at::TensorList(inputs));
}

}  // namespace kiln::autograd_dispatch
