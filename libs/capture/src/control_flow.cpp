#include "kiln/capture/control_flow.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <string>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/capture/convert.hpp"
#include "kiln/capture/identity.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/ir/functionalize.hpp"
#include "nested.hpp"
#include "recorder.hpp"

namespace kiln::capture {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

// Results that depend on `operands`, with a gradient that nobody can take.
struct WithoutGradient : torch::autograd::Function<WithoutGradient> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext*,
                                                const Tensors* results,
                                                at::TensorList /*operands*/) {
    return *results;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw Error(ErrorCode::kUnsupported, "the gradient of cond and map cannot be recorded");
  }
};

// Results that share no memory with what the function was given.
Tensors call_unaliased(const TensorFunction& function, const Tensors& operands) {
  Tensors results = function(operands);
  for (at::Tensor& result : results) {
    for (const at::Tensor& operand : operands) {
      if (result.is_alias_of(operand)) {
        result = result.clone();
      }
    }
  }
  return results;
}

// A function of a trace as a graph: its inputs are `count` operands, then what it captured.
struct Body {
  Recording recording;
  std::size_t count;
};

Body record_body(const TensorFunction& function, const Tensors& operands) {
  return {record_nested([&](const Tensors& in) { return call_unaliased(function, in); }, operands),
          operands.size()};
}

// The graph of `body` on the operands that it was recorded on, then all of `lifted`.
ir::Graph graph_on(Body body, const Tensors& lifted, const std::string& name, const char* what) {
  ir::Graph& graph = body.recording.graph;
  const std::vector<ir::Input> own = graph.inputs();
  std::vector<ir::Input> inputs(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(body.count));
  for (const at::Tensor& tensor : lifted) {
    const Tensors& captured = body.recording.captured;
    const auto found = std::find_if(captured.begin(), captured.end(), [&](const at::Tensor& other) {
      return same_tensor(other, tensor);
    });
    if (found != captured.end()) {
      inputs.push_back(own[body.count + static_cast<std::size_t>(found - captured.begin())]);
      continue;
    }
    ir::TensorMeta meta = meta_of(tensor);
    meta.storage = graph.new_storage();
    inputs.push_back({graph.add_input("unused", std::move(meta)), ir::InputKind::kUser, {}});
  }
  for (ir::Input& input : inputs) {
    input.kind = ir::InputKind::kUser;
  }
  graph.inputs() = std::move(inputs);
  graph.set_name(name);
  ir::Graph functional = ir::remove_dead_code(ir::functionalize(std::move(graph)));
  for (const ir::Output& output : functional.outputs()) {
    if (output.kind == ir::OutputKind::kMutation) {
      refuse(std::string(what) + " modifies a tensor that it did not make");
    }
  }
  return functional;
}

void lift(const Tensors& captured, Tensors& lifted) {
  for (const at::Tensor& tensor : captured) {
    if (std::none_of(lifted.begin(), lifted.end(), [&](const at::Tensor& other) {
          return same_tensor(tensor, other);
        })) {
      lifted.push_back(tensor);
    }
  }
}

void check_alike(const Tensors& a, const Tensors& b) {
  bool alike = a.size() == b.size();
  for (std::size_t i = 0; alike && i < a.size(); ++i) {
    alike = a[i].defined() && b[i].defined() && a[i].dtype() == b[i].dtype() &&
            a[i].sizes() == b[i].sizes() && a[i].strides() == b[i].strides();
  }
  if (!alike) {
    refuse("cond: the branches return different numbers of tensors, or other dtypes or shapes");
  }
}

// Writes the region down, on `lists` of operands of which the last one ends in what was lifted. Its
// results have no history but one that says why there is none.
Tensors finish(const char* target,
               std::vector<ir::Argument> arguments,
               std::vector<ir::Graph> bodies,
               const std::vector<Tensors>& lists,
               Tensors results) {
  Tensors operands;
  for (const Tensors& list : lists) {
    operands.insert(operands.end(), list.begin(), list.end());
  }
  {
    const PauseRecording unrecorded;
    // Each is a value of its own, also where a branch returns what it captured, or one tensor
    // twice.
    Tensors others = operands;
    for (at::Tensor& result : results) {
      const bool is_shared = std::any_of(others.begin(), others.end(), [&](const auto& other) {
        return result.is_alias_of(other);
      });
      result = is_shared ? Recorder::current()->copy_of(result) : result.detach();
      others.push_back(result);
    }
    const bool depends =
        std::any_of(operands.begin(), operands.end(), [](const at::Tensor& tensor) {
          return tensor.requires_grad();
        });
    if (c10::GradMode::is_enabled() && depends) {
      results = WithoutGradient::apply(&results, at::TensorList(operands));
    }
  }
  Recorder::current()->call_region(target, std::move(arguments), std::move(bodies), lists, results);
  return results;
}

Tensors joined(const Tensors& a, const Tensors& b) {
  Tensors all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

Tensors record_cond(ir::Argument argument,
                    bool taken,
                    const TensorFunction& if_true,
                    const TensorFunction& if_false,
                    const Tensors& operands) {
  Body yes = record_body(if_true, operands);
  Body no = record_body(if_false, operands);
  check_alike(yes.recording.outputs, no.recording.outputs);
  Tensors lifted;
  lift(yes.recording.captured, lifted);
  lift(no.recording.captured, lifted);
  Tensors results = taken ? yes.recording.outputs : no.recording.outputs;
  std::vector<ir::Graph> bodies;
  bodies.push_back(graph_on(std::move(yes), lifted, "true_graph", "a branch of cond"));
  bodies.push_back(graph_on(std::move(no), lifted, "false_graph", "a branch of cond"));
  if (!Recorder::current()->options().on_shadow_inputs) {
    const PauseRecording unrecorded;
    results = call_unaliased(taken ? if_true : if_false, operands);
  }
  return finish(
      kCond, {std::move(argument)}, std::move(bodies), {joined(operands, lifted)}, results);
}

Tensors slices_of(const Tensors& sequences, std::int64_t index) {
  Tensors slices;
  for (const at::Tensor& sequence : sequences) {
    slices.push_back(sequence.select(0, index));
  }
  return slices;
}

Tensors map_slices(const TensorFunction& body,
                   const Tensors& sequences,
                   const Tensors& operands,
                   std::int64_t length) {
  std::vector<Tensors> columns;
  for (std::int64_t i = 0; i < length; ++i) {
    const Tensors results = call_unaliased(body, joined(slices_of(sequences, i), operands));
    columns.resize(results.size());
    for (std::size_t k = 0; k < results.size(); ++k) {
      columns[k].push_back(results[k]);
    }
  }
  Tensors stacked;
  for (const Tensors& column : columns) {
    stacked.push_back(at::stack(column));
  }
  return stacked;
}

}  // namespace

Tensors cond(const at::Tensor& predicate,
             const TensorFunction& if_true,
             const TensorFunction& if_false,
             const Tensors& operands) {
  if (predicate.numel() != 1) {
    refuse("cond: the predicate has " + std::to_string(predicate.numel()) + " elements, not one");
  }
  bool taken = false;
  {
    const PauseRecording unrecorded;
    taken = predicate.item().toBool();
  }
  if (!is_recording()) {
    return call_unaliased(taken ? if_true : if_false, operands);
  }
  const ir::ValueId value = Recorder::current()->value_of(predicate);
  return record_cond(value, taken, if_true, if_false, operands);
}

Tensors cond(bool predicate,
             const TensorFunction& if_true,
             const TensorFunction& if_false,
             const Tensors& operands) {
  return is_recording() ? record_cond(predicate, predicate, if_true, if_false, operands)
                        : call_unaliased(predicate ? if_true : if_false, operands);
}

Tensors map(const TensorFunction& body, const Tensors& sequences, const Tensors& operands) {
  const std::int64_t length =
      sequences.empty() || sequences[0].dim() == 0 ? 0 : sequences[0].size(0);
  for (const at::Tensor& sequence : sequences) {
    if (length == 0 || sequence.dim() == 0 || sequence.size(0) != length) {
      refuse("map: the sequences are empty or of different lengths");
    }
  }
  if (!is_recording()) {
    return map_slices(body, sequences, operands, length);
  }
  Tensors slices;
  {
    const PauseRecording unrecorded;
    slices = slices_of(sequences, 0);
  }
  Body recorded = record_body(body, joined(slices, operands));
  const Tensors lifted = recorded.recording.captured;
  std::vector<ir::Graph> bodies;
  bodies.push_back(graph_on(std::move(recorded), lifted, "body_graph", "the body of map"));
  Tensors results;
  {
    const PauseRecording unrecorded;
    Recorder::current()->run_privately(
        [&] { results = map_slices(body, sequences, operands, length); });
  }
  return finish(kMap, {}, std::move(bodies), {sequences, joined(operands, lifted)}, results);
}

}  // namespace kiln::capture
