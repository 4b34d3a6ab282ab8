// Forward and backward in one trace.

#pragma once

#include <cstdint>

#include "kiln/capture/record.hpp"
#include "pipeline.hpp"

namespace kiln::exporter {

/// Records `function` on `example` and then the gradients of its output at `loss_index`: of every
/// owned parameter, and of every input that requires grad. Fills in `trace.recording` and
/// `trace.gradients`.
///
/// Throws `kInvalidArgument` if the outputs do not allow it (EX-24 to EX-26).
void record_joint(Trace& trace,
                  const capture::TensorFunction& function,
                  const Tensors& example,
                  std::uint32_t loss_index,
                  const capture::RecordOptions& options);

}  // namespace kiln::exporter
