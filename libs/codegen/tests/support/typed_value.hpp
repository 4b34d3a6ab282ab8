// Tensors as the text of a graph names them.

#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

namespace kiln::codegen::testing {

/// "1, 2, 3".
inline std::string list(at::IntArrayRef numbers) {
  std::string text;
  for (const std::int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

/// "%name: f32[sizes]{strides}", as `like` lies.
inline std::string typed(const std::string& name, const at::Tensor& like) {
  return "%" + name + ": f32[" + list(like.sizes()) + "]{" + list(like.strides()) + "}";
}

}  // namespace kiln::codegen::testing
