// What programs that know of the trace they may be in ask of it: control flow and the interpreter.

#pragma once

#include "kiln/capture/record.hpp"

namespace kiln::capture {

/// Runs `function` on shadows of `inputs` and records it apart from the trace that the calling
/// thread is in. Tensors of that trace which it uses count as captured.
[[nodiscard]] Recording record_nested(const TensorFunction& function, const Tensors& inputs);

/// The node of a trace before dispatch that says: grad mode is now its argument.
inline constexpr const char* kSetGradMode = "kiln.set_grad_enabled.default";

/// Sets grad mode, and writes it down in a trace before dispatch.
void set_grad_mode(bool enabled);

}  // namespace kiln::capture
