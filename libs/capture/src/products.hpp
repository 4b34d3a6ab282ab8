// What a trace that only wants the graph need not compute.

#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>

namespace kiln::capture {

/// Puts zeros of the right geometry in the place of a call's arguments on `stack`, if `target` is a
/// matrix product, a convolution or an attention whose result is known without computing it. Where
/// it is not, as for operands that libtorch would refuse, returns false and changes nothing.
bool skip_product(const c10::OperatorHandle& op,
                  const std::string& target,
                  torch::jit::Stack& stack);

}  // namespace kiln::capture
