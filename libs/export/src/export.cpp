#include "kiln/export/export.hpp"

#include <algorithm>
#include <utility>

#include "joint.hpp"
#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"
#include "pipeline.hpp"

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

}  // namespace

ExportedProgram export_program(const TensorFunction& function,
                               const Tensors& example,
                               const ExportOptions& options) {
  return export_program(function, {}, example, options);
}

ExportedProgram export_program(const TensorFunction& function,
                               const std::vector<NamedTensor>& named,
                               const Tensors& example,
                               const ExportOptions& options) {
  Trace trace;
  trace.owned = owned_tensors(named);
  trace.input_names = options.input_names;
  const capture::RecordOptions record{.on_twins = true,
                                      .allow_value_reads = options.allow_value_reads};
  if (options.joint) {
    if (!options.loss_index) {
      throw Error(ErrorCode::kInvalidArgument,
                  "a joint export needs loss_index, the output that is the loss");
    }
    record_joint(trace, function, example, *options.loss_index, record);
  } else {
    trace.recording = capture::record(function, example, record);
  }

  ExportedProgram program = assemble(std::move(trace), example);
  for (const NamedTensor& tensor : named) {
    if (tensor.is_buffer && !tensor.persistent) {
      program.non_persistent_buffers.insert(tensor.name);
    }
  }
  if (options.joint) {
    program.loss_index = options.loss_index;
  }
  return program;
}

}  // namespace kiln::exporter
