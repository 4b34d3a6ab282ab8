#include "kiln/export/export.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "joint.hpp"
#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/export/dynamic_dims.hpp"
#include "kiln/export/dynamic_trace.hpp"
#include "pipeline.hpp"
#include "refuse.hpp"
#include "suggest_relation.hpp"

namespace kiln::exporter {
namespace {

std::vector<OwnedTensor> owned_tensors(const std::vector<NamedTensor>& named) {
  std::vector<OwnedTensor> result;
  for (const NamedTensor& tensor : named) {
    result.push_back({tensor.name,
                      tensor.tensor,
                      tensor.is_buffer ? ir::InputKind::kBuffer : ir::InputKind::kParameter});
  }
  std::stable_sort(result.begin(), result.end(), [](const OwnedTensor& a, const OwnedTensor& b) {
    return a.kind == ir::InputKind::kParameter && b.kind == ir::InputKind::kBuffer;
  });
  return result;
}

void check_options(const ExportOptions& options) {
  if (options.functionalize_random) {
    refuse("Functionalized RNG is not currently supported in the aot_export");
  }
  if (options.joint && options.pre_dispatch) {
    refuse("pre_dispatch is not supported when trace_joint is True.");
  }
  if (options.joint && !options.dynamic_dims.empty()) {
    refuse("dynamic_dims are not supported in a joint export");
  }
  if (options.joint && !options.loss_index) {
    refuse("a joint export needs loss_index, the output that is the loss");
  }
}

// Tensors that wrap others: what Python calls subclasses.
void check_kinds(const Tensors& inputs) {
  constexpr c10::DispatchKeySet wrappers({c10::DispatchKey::Python,
                                          c10::DispatchKey::Functionalize,
                                          c10::DispatchKey::FuncTorchBatched,
                                          c10::DispatchKey::FuncTorchGradWrapper,
                                          c10::DispatchKey::NestedTensor});
  for (const at::Tensor& input : inputs) {
    if (input.defined() && input.key_set().has_any(wrappers)) {
      refuse(
          "aot_export is not currently supported with traceable tensor subclass: an input wraps " +
          ("another tensor (" + toString(input.key_set()) + ")"));
    }
  }
}

// Tensors that became constants, where none may.
void check_constants(const ExportedProgram& program) {
  for (const ir::Input& input : program.graph.inputs()) {
    if (input.kind == ir::InputKind::kConstant) {
      refuse(
          "Please convert all Tensors to FakeTensors first, or allow constants: the program uses " +
          ("a tensor that is neither an input nor named, " + input.name));
    }
  }
}

}  // namespace

ExportedProgram export_program(const TensorFunction& function,
                               const Tensors& example,
                               const ExportOptions& options) {
  return export_program(function, {}, example, options);
}

namespace {

ExportedProgram trace_function(const TensorFunction& function,
                               const std::vector<NamedTensor>& named,
                               const Tensors& example,
                               const ExportOptions& options) {
  Trace trace;
  trace.owned = owned_tensors(named);
  trace.input_names = options.input_names;
  const capture::RecordOptions record{.on_shadow_inputs = true,
                                      .allow_value_reads = options.allow_value_reads,
                                      .pre_dispatch = options.pre_dispatch,
                                      .check_hidden_reads = options.check_hidden_reads,
                                      .allow_uninitialized = options.allow_uninitialized};
  if (options.joint) {
    record_joint(trace, function, example, *options.loss_index, record);
  } else {
    trace.recording = capture::record(function, example, record);
  }

  return assemble(std::move(trace), example);
}

// The graph for all sizes that were asked for, or an error.
void let_dims_vary(const TensorFunction& function,
                   const std::vector<NamedTensor>& named,
                   const ExportOptions& options,
                   ExportedProgram* program) {
  const Tensors& example = program->sample_inputs;
  ExportOptions once = options;
  once.check_hidden_reads = false;  // The trace on the example has looked.
  const TraceProgram trace = [&](const Tensors& inputs) {
    ++program->traces;
    return trace_function(function, named, inputs, once);
  };
  const auto advice = [&] {
    return suggest_relation(
        trace, function, *program, example, options.dynamic_dims, options.input_names);
  };
  DynamicShapes shapes;
  try {
    shapes = dynamic_shapes_of(options.dynamic_dims, example, options.input_names);
  } catch (const Error& error) {
    const std::string message = error.what();  // With the kind of error in front of it.
    throw Error(error.code(), message.substr(message.find(": ") + 2) + advice());
  }
  relate_automatic_dims(trace, function, *program, example, &shapes);
  DynamicTrace dynamic = trace_dynamic(trace, function, *program, example, shapes);
  for (std::string& remark : dynamic.remarks) {
    const bool is_automatic = std::ranges::any_of(shapes.automatic, [&](const std::string& name) {
      return remark.starts_with("'" + name + "' ");
    });
    if (!is_automatic) {
      throw Error(ErrorCode::kUnsupported,
                  "sizes do not vary as dynamic_dims say: " + remark + advice());
    }
    program->specialisations.push_back(std::move(remark));
  }
  program->graph = std::move(dynamic.graph);
  program->symbols = shapes.symbols;
  program->input_sizes = shapes.input_sizes;
}

}  // namespace

ExportedProgram export_program(const TensorFunction& function,
                               const std::vector<NamedTensor>& named,
                               const Tensors& example,
                               const ExportOptions& options) {
  check_options(options);
  check_kinds(example);
  ExportedProgram program = trace_function(function, named, example, options);
  program.traces = 1;
  if (!options.dynamic_dims.empty()) {
    let_dims_vary(function, named, options, &program);
  }
  for (const NamedTensor& tensor : named) {
    if (tensor.is_buffer && !tensor.persistent) {
      program.non_persistent_buffers.insert(tensor.name);
    }
  }
  if (options.joint) {
    program.loss_index = options.loss_index;
  }
  if (!options.allow_constants) {
    check_constants(program);
  }
  program.pre_dispatch = options.pre_dispatch;
  return program;
}

}  // namespace kiln::exporter
