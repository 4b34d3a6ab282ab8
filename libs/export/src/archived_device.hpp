// The device that an archived program is for. Whatever it is, the program is traced on the CPU.

#pragma once

#include "kiln/ir/types.hpp"
#include "serialized_types.hpp"

namespace kiln::exporter {

/// Whether the text of a model may mention a GPU: nothing needs to be parsed for most that do not.
[[nodiscard]] bool may_mention_gpu(const std::string& model);

/// Makes a program for the CPU of `graph_module`, and returns what it was for.
///
/// On a GPU, parameters, buffers and constants may be on the CPU: they are the package's own.
/// Throws `Error` with `kUnsupported`, naming the tensor, where an input or a result is not on the
/// program's device, and for several GPUs and for autocast of a GPU's operators.
[[nodiscard]] ir::DeviceType move_to_cpu(Json& graph_module);

}  // namespace kiln::exporter
