#include "joint.hpp"

#include <ATen/ops/ones_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <sstream>
#include <string>
#include <utility>

#include "kiln/export/export.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/ir/functionalize.hpp"
#include "kiln/ir/verify.hpp"
#include "refuse.hpp"

namespace kiln::exporter {
namespace {

void check_outputs(const Tensors& outputs, std::uint32_t loss_index) {
  if (loss_index >= outputs.size()) {
    refuse("loss_index is " + std::to_string(loss_index) + ", but there are " +
           std::to_string(outputs.size()) + " outputs");
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (i != loss_index && outputs[i].defined() && outputs[i].requires_grad()) {
      refuse(
          "Found an output of the forward that requires gradients, that was not the scalar loss: "
          "output " +
          std::to_string(i) + ". Detach it first");
    }
  }
  const at::Tensor& loss = outputs[loss_index];
  if (!loss.requires_grad()) {
    refuse("The loss, output " + std::to_string(loss_index) + ", does not require gradients");
  }
  if (loss.numel() != 1) {
    std::ostringstream shape;
    shape << loss.sizes();
    refuse("The loss, output " + std::to_string(loss_index) + ", is not a scalar: its shape is " +
           shape.str());
  }
}

}  // namespace

void record_joint(Trace& trace,
                  const capture::TensorFunction& function,
                  const Tensors& example,
                  std::uint32_t loss_index,
                  const capture::RecordOptions& options) {
  const auto forward_and_backward = [&](const Tensors& inputs) {
    const c10::AutoGradMode with_grad(true);
    Tensors outputs = function(inputs);
    check_outputs(outputs, loss_index);
    Tensors wanted;
    trace.gradients.clear();
    for (std::size_t i = 0; i < trace.owned.size(); ++i) {
      if (trace.owned[i].kind == ir::InputKind::kParameter &&
          trace.owned[i].tensor.requires_grad()) {
        wanted.push_back(trace.owned[i].tensor);
        trace.gradients.push_back({.is_user = false, .index = i});
      }
    }
    const std::size_t parameters = wanted.size();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].requires_grad()) {
        wanted.push_back(inputs[i]);
        trace.gradients.push_back({.is_user = true, .index = i});
      }
    }

    const capture::BackwardScope backward;
    const Tensors gradients = torch::autograd::grad({outputs[loss_index]},
                                                    wanted,
                                                    /*grad_outputs=*/{},
                                                    /*retain_graph=*/std::nullopt,
                                                    /*create_graph=*/false,
                                                    /*allow_unused=*/true);
    for (std::size_t i = 0; i < parameters; ++i) {
      if (!gradients[i].defined()) {
        refuse("Found a parameter that did not receive a gradient: " +
               trace.owned[trace.gradients[i].index].name);
      }
    }
    outputs.insert(outputs.end(), gradients.begin(), gradients.end());
    return outputs;
  };
  trace.recording = capture::record(forward_and_backward, example, options);
}

ir::Graph export_joint_simple(const TensorFunction& function, const Tensors& example) {
  capture::Recording forward = capture::record(function, example);
  bool differentiates = false;
  Tensors tangents;
  for (const ir::Output& output : forward.graph.outputs()) {
    for (const ir::Input& input : forward.graph.inputs()) {
      if (output.value.valid() &&
          forward.graph.tensor(output.value).storage == forward.graph.tensor(input.value).storage) {
        refuse("export_joint_simple: an output aliases an input");
      }
    }
  }
  Tensors inputs = example;
  for (const at::Tensor& output : forward.outputs) {
    differentiates |= output.defined() && output.requires_grad();
    tangents.push_back(output.defined() ? at::ones_like(output.detach()) : at::Tensor());
  }
  if (differentiates) {
    inputs.insert(inputs.end(), tangents.begin(), tangents.end());
    forward = capture::record(
        [&](const Tensors& arguments) {
          const Tensors primals(arguments.begin(),
                                arguments.begin() + static_cast<std::ptrdiff_t>(example.size()));
          Tensors results = function(primals);
          Tensors from;
          Tensors seeds;
          for (std::size_t i = 0; i < results.size(); ++i) {
            if (results[i].defined() && results[i].requires_grad()) {
              from.push_back(results[i]);
              seeds.push_back(arguments[example.size() + i]);
            }
          }
          Tensors wanted;
          for (const at::Tensor& primal : primals) {
            if (primal.requires_grad()) {
              wanted.push_back(primal);
            }
          }
          const capture::BackwardScope backward;
          const Tensors gradients =
              torch::autograd::grad(from, wanted, seeds, std::nullopt, false, true);
          std::size_t next = 0;
          for (const at::Tensor& primal : primals) {
            results.push_back(primal.requires_grad() ? gradients[next++] : at::Tensor());
          }
          return results;
        },
        inputs);
    for (std::size_t i = 0; i < tangents.size(); ++i) {
      forward.graph.inputs()[example.size() + i].kind = ir::InputKind::kTangent;
    }
    for (std::uint32_t i = 0; i < example.size(); ++i) {
      ir::Output& output = forward.graph.outputs()[tangents.size() + i];
      output.kind = ir::OutputKind::kGradient;
      output.input = i;
    }
  }
  check_mutations(forward.graph, differentiates);
  ir::Graph graph = ir::remove_dead_code(ir::functionalize(std::move(forward.graph)));
  for (const ir::Output& output : graph.outputs()) {
    if (output.kind == ir::OutputKind::kMutation) {
      refuse("export_joint_simple: the function mutates an input");
    }
  }
  ir::verify_functional(graph);
  return graph;
}

}  // namespace kiln::exporter
