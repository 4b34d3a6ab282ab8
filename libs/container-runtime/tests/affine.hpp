// The hand-written model of tests/models/affine.cpp, as tests use it.

#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include <dlfcn.h>

#include <filesystem>
#include <string>

namespace kiln::container_runtime {

inline std::filesystem::path test_model(const char* name) {
  return std::filesystem::path(KILN_TEST_MODELS) / (std::string(name) + ".so");
}

/// One of the counts that the model keeps in this process; it must be loaded.
inline int affine_count(const char* name) {
  void* library = dlopen(test_model("affine").c_str(), RTLD_NOW | RTLD_NOLOAD);
  const int count = reinterpret_cast<int (*)()>(dlsym(library, name))();
  dlclose(library);
  return count;
}

/// How often the model was folded.
inline int affine_folds() {
  return affine_count("affine_folds");
}

/// What the model should return: 2 * scale * x + shift.
inline at::Tensor affine(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift) {
  return scale.mul(2).mul(x).add(shift);
}

inline at::Tensor embedded_scale() {
  return at::tensor({1.0F, 2.0F, 3.0F, 4.0F});
}
inline at::Tensor embedded_shift() {
  return at::tensor({10.0F, 20.0F, 30.0F, 40.0F});
}

}  // namespace kiln::container_runtime
