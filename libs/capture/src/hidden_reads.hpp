// Values that a program read without an operator.

#pragma once

#include <functional>

#include "kiln/capture/record.hpp"

namespace kiln::capture {

/// Calls `trace` on other data than `inputs`, on which it gave `first`, and throws `kUnsupported`
/// if what it then gives is not the same program, or if it throws whatever the data.
void refuse_hidden_reads(const Recording& first,
                         const Tensors& inputs,
                         const std::function<Recording(const Tensors&)>& trace);

}  // namespace kiln::capture
