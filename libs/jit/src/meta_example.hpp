// Tensors that say what a call will be like before there is any data.

#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace kiln {

/// `example` with zeros on `device` for its meta tensors: of their sizes, strides, offsets and
/// requires_grad, and the same tensor where they are the same. Throws `Error` with `kUnsupported`
/// for two that share memory otherwise.
[[nodiscard]] std::vector<at::Tensor> with_memory(std::vector<at::Tensor> example,
                                                  at::Device device);

}  // namespace kiln
